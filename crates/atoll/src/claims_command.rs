//! `atoll claims`: which of the papers' claims hold on this machine.

use crate::failure::Failure;
use crate::lab::{Lab, Outcome};
use crate::output::print;
use crate::papers::ClaimsArgs;
use crate::sheet::fitted;
use claims::page::{self, Origin};
use claims::{Claim, ClaimVerdict, Decision, How, Library, Row};
use comfy_table::{ContentArrangement, Table, presets};
use deploy::Interrupt;
use std::rc::Rc;
use world::tell;

pub fn run(args: &ClaimsArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let library = Library::built_in().map_err(Failure::run)?;
    let claims = chosen(&library, args)?;
    if args.engine_profile.is_some() {
        let text = "--engine-profile: only simulated claims have one; add --how simulated, or leave it out";
        return Err(Failure::Usage(text.into()));
    }
    let mut lab = Lab::open(&args.rows, interrupt)?;
    let wanted: Vec<&Claim> = claims.iter().copied().filter(|claim| asked(args, claim)).collect();
    lab.announce(&experiments(&library, &wanted))?;
    let mut decisions = Vec::new();
    for claim in &claims {
        let decision = match asked(args, claim) {
            true => decide(&library, &claim.id, &mut lab),
            false => undecided(&claim.id, TRACES.into()),
        };
        decisions.push(decision);
    }
    if let Some(path) = lab.write_all()? {
        tell(format_args!("rows: {}", path.display()));
    }
    let page = || page::markdown(&library, &decisions, &origin(args, &lab));
    if let Some(out) = &args.rows.out {
        let path = out.join("claims.md");
        std::fs::write(&path, page())
            .map_err(|e| Failure::Run(format!("cannot write {}: {e}", path.display())))?;
        tell(format_args!("claims: {}", path.display()));
    }
    match () {
        () if args.markdown => print(page().trim_end())?,
        () if args.json => decisions.iter().try_for_each(|d| print(&json(d)))?,
        () => {
            print(&fitted(table(&library, &decisions)))?;
            print(&page::summary(&decisions))?;
        }
    }
    if args.markdown {
        page::remarks(&library, &decisions).iter().for_each(|r| tell(format_args!("atoll: warning: {r}")));
    }
    lab.ending()
}

/// Traces take long, and say the same on every machine: they are made only for claims that are
/// asked for.
const TRACES: &str = "decided from traces: add --how trace-sim, or name it";

fn asked(args: &ClaimsArgs, claim: &Claim) -> bool {
    claim.how != How::TraceSim || args.how.contains(&How::TraceSim) || args.ids.contains(&claim.id)
}

fn undecided(id: &str, why: String) -> Decision {
    Decision {
        id: id.into(),
        verdict: ClaimVerdict::NotDecidable(why),
        values: Vec::new(),
        part: None,
        anchor: None,
    }
}

fn origin(args: &ClaimsArgs, lab: &Lab) -> Origin {
    let size = args.rows.size_in_words();
    Origin::of(lab.all_rows().iter(), driver::VERSION, format!("atoll claims{size} --markdown"))
}

/// The claims that were asked for, in the ledger's order.
pub fn chosen<'a>(library: &'a Library, args: &ClaimsArgs) -> Result<Vec<&'a Claim>, Failure> {
    let mut wanted = Vec::new();
    for id in &args.ids {
        wanted.push(library.claim(id).map_err(Failure::usage)?);
    }
    let is_wanted = |c: &&Claim| {
        (wanted.is_empty() || wanted.iter().any(|w| w.id == c.id))
            && (args.how.is_empty() || args.how.contains(&c.how))
    };
    let claims: Vec<&Claim> = library.ledger.claims.iter().filter(is_wanted).collect();
    if claims.is_empty() {
        let how: Vec<&str> = args.how.iter().map(|h| h.name()).collect();
        return Err(Failure::Usage(format!(
            "none of the claims named is decided by --how {}; expected others, or no --how",
            how.join(",")
        )));
    }
    Ok(claims)
}

/// Every experiment that these claims need, once.
fn experiments<'a>(library: &'a Library, claims: &[&Claim]) -> Vec<&'a claims::Experiment> {
    let needed = |id: &str| {
        let needs =
            |c: &&Claim| library.evaluators.get(&c.id).is_some_and(|e| e.experiments.iter().any(|x| x == id));
        claims.iter().any(needs)
    };
    library.experiments.iter().filter(|e| needed(&e.id)).collect()
}

fn decide(library: &Library, id: &str, lab: &mut Lab) -> Decision {
    let undecided = |why: String| undecided(id, why);
    let Some(evaluator) = library.evaluators.get(id) else {
        return undecided(library.waits(id).unwrap_or_default().into());
    };
    let mut parts: Vec<Rc<Vec<Row>>> = Vec::new();
    for name in &evaluator.experiments {
        match library.experiment(name).map(|e| lab.rows(e)) {
            Ok(Outcome::Rows(rows)) => parts.push(rows),
            Ok(Outcome::None(why)) => return undecided(why),
            Err(unknown) => return undecided(unknown.to_string()),
        }
    }
    let rows: Vec<&Row> = parts.iter().flat_map(|rows| rows.iter()).collect();
    library.evaluators.decide(evaluator, &rows)
}

pub fn json(d: &Decision) -> String {
    let mut object = serde_json::json!({ "id": d.id, "verdict": d.verdict.name() });
    let values: serde_json::Map<String, serde_json::Value> =
        d.values.iter().map(|(name, values)| (name.clone(), values.clone().into())).collect();
    object["values"] = values.into();
    match &d.verdict {
        ClaimVerdict::NotReproduced(failed) => object["does_not_hold"] = failed.clone().into(),
        ClaimVerdict::NotDecidable(why) => object["reason"] = why.clone().into(),
        ClaimVerdict::Reproduced => {}
    }
    if let Some(part) = &d.part {
        object["part"] = part.clone().into();
    }
    object.to_string()
}

/// The width of a table that goes to a file, in characters.
pub const WIDTH: u16 = 160;

fn table(library: &Library, decisions: &[Decision]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        table.set_width(WIDTH);
    }
    table.set_header(["claim", "says", "measured here", "verdict"]);
    for d in decisions {
        let claim = library.ledger.get(&d.id).map_or("", |c| c.claim.as_str());
        let part = d.part.as_ref().map_or(String::new(), |part| format!(" ({part})"));
        let verdict = match &d.verdict {
            ClaimVerdict::NotDecidable(why) => format!("{}: {why}", d.verdict.name()),
            ClaimVerdict::NotReproduced(failed) => {
                format!("{}: {}{part}", d.verdict.name(), failed.join(", "))
            }
            ClaimVerdict::Reproduced => format!("{}{part}", d.verdict.name()),
        };
        table.add_row([d.id.as_str(), claim, &page::measured(d), &verdict]);
    }
    table
}
