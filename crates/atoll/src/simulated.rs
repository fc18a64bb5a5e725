//! The papers' figures and claims on described machines: `atoll figures --simulated` and `atoll
//! claims --how simulated`. Nothing is measured; equal programs print equal results.

use crate::claims_command::{WIDTH, chosen as chosen_claims, json};
use crate::failure::Failure;
use crate::figures::{heading, show};
use crate::output::print;
use crate::papers::{ClaimsArgs, FiguresArgs};
use crate::sheet::fitted;
use crate::version;
use base::counted;
use claims::page::measured;
use claims::{Claim, ClaimVerdict, Decision, Experiment, Library, Row};
use comfy_table::{ContentArrangement, Table, presets};
use deploy::Interrupt;
use std::collections::BTreeMap;
use std::fmt::Write;
use world::tell;

/// The engine profile of Atoll: its verdict stands beside that of the paper's engine.
const OURS: &str = "atoll";

/// Figures may be named without this.
const PREFIX: &str = "simulated-";

pub fn figures(args: &FiguresArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let library = Library::built_in().map_err(Failure::run)?;
    let figures = chosen(&library, &args.ids)?;
    for figure in figures {
        if interrupt.is_set() {
            return Err(Failure::Interrupted);
        }
        print(&heading(figure))?;
        match figure.simulated_rows(args.engine_profile.as_deref()) {
            Ok(rows) => show(figure, &rows)?,
            Err(why) => print(&format!("nothing to show: {why}\n"))?,
        }
    }
    Ok(())
}

fn chosen<'a>(library: &'a Library, ids: &[String]) -> Result<Vec<&'a Experiment>, Failure> {
    if ids.is_empty() {
        let is_drawn = |e: &&Experiment| e.is_figure() && !e.simulate.is_empty();
        return Ok(library.experiments.iter().filter(is_drawn).collect());
    }
    let named = |id: &String| {
        let long = format!("{PREFIX}{id}");
        let found = library.experiment(&long).or_else(|_| library.experiment(id)).map_err(Failure::usage)?;
        if found.simulate.is_empty() {
            let text =
                format!("{id}: it is measured and not simulated; see atoll figures --simulated --list");
            return Err(Failure::Usage(text));
        }
        Ok(found)
    };
    ids.iter().map(named).collect()
}

/// The verdict with the papers' engines, and with ours unless the arguments name an engine.
struct Judged {
    decision: Decision,
    ours: Option<Decision>,
}

pub fn claims(args: &ClaimsArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let library = &Library::built_in().map_err(Failure::run)?;
    let claims = &chosen_claims(library, args)?;
    let rows = &args.rows;
    if rows.quick || rows.within.is_some() || rows.out.is_some() || rows.rows.is_some() {
        let text = "--how simulated: it measures nothing; leave out --quick, --within, --out and --rows";
        return Err(Failure::Usage(text.into()));
    }
    let profile = args.engine_profile.as_deref();
    let theirs = simulated(library, claims, profile, interrupt)?;
    let ours = match profile {
        Some(_) => None,
        None => Some(simulated(library, claims, Some(OURS), interrupt)?),
    };
    let judge = |claim: &&Claim| Judged {
        decision: decide(library, &claim.id, &theirs),
        ours: ours.as_ref().map(|rows| decide(library, &claim.id, rows)),
    };
    let judged: Vec<Judged> = claims.iter().map(judge).collect();
    match () {
        () if args.markdown => print(page(library, &judged, args).trim_end()),
        () if args.json => judged.iter().try_for_each(|j| print(&line(j))),
        () => {
            print(&fitted(table(library, &judged)))?;
            print(&summary(&judged))
        }
    }
}

/// The rows of an experiment, or the reason that there are none.
type Simulated = BTreeMap<String, Result<Vec<Row>, String>>;

fn simulated(
    library: &Library,
    claims: &[&Claim],
    profile: Option<&str>,
    interrupt: &Interrupt,
) -> Result<Simulated, Failure> {
    let needed = |e: &&Experiment| {
        let needs = |c: &&Claim| library.simulated.get(&c.id).is_some_and(|v| v.experiments.contains(&e.id));
        claims.iter().any(needs)
    };
    let needed: Vec<&Experiment> = library.experiments.iter().filter(needed).collect();
    tell(format_args!("{} to simulate, engine: {}", counted(needed.len(), "experiment"), engine(profile)));
    let mut rows = Simulated::new();
    for experiment in needed {
        if interrupt.is_set() {
            return Err(Failure::Interrupted);
        }
        let outcome = experiment.simulated_rows(profile).map_err(|e| e.to_string());
        rows.insert(experiment.id.clone(), outcome);
    }
    Ok(rows)
}

fn engine(profile: Option<&str>) -> &str {
    profile.unwrap_or("that of the paper")
}

fn decide(library: &Library, id: &str, simulated: &Simulated) -> Decision {
    let undecided = |why: String| {
        let verdict = ClaimVerdict::NotDecidable(why);
        Decision { id: id.into(), verdict, values: Vec::new(), part: None, anchor: None }
    };
    let Some(evaluator) = library.simulated.get(id) else {
        let own = library.simulated.waits.get(id).cloned();
        return undecided(own.unwrap_or_else(|| "no experiment simulates it yet".into()));
    };
    let mut rows: Vec<&Row> = Vec::new();
    for name in &evaluator.experiments {
        match simulated.get(name) {
            Some(Ok(some)) => rows.extend(some),
            Some(Err(why)) => return undecided(why.clone()),
            None => return undecided(format!("{name} was not simulated")),
        }
    }
    library.simulated.decide(evaluator, &rows)
}

/// The verdict in a word; an anchor never counts as reproduced.
fn word(d: &Decision) -> &'static str {
    match (&d.verdict, &d.anchor) {
        (ClaimVerdict::NotDecidable(_), _) => "not decided",
        (_, Some(_)) => "anchor",
        (verdict, None) => verdict.name(),
    }
}

/// The verdict with its reason.
fn verdict(d: &Decision) -> String {
    let part = d.part.as_ref().map_or(String::new(), |part| format!(" ({part})"));
    let reason = match (&d.verdict, &d.anchor) {
        (ClaimVerdict::NotDecidable(why), _) => format!(": {why}"),
        (ClaimVerdict::Reproduced, Some(anchor)) => format!(", met: {anchor}"),
        (ClaimVerdict::NotReproduced(_), Some(anchor)) => format!(", not met: {anchor}"),
        (ClaimVerdict::NotReproduced(failed), None) => format!(": {}", failed.join(", ")),
        (ClaimVerdict::Reproduced, None) => String::new(),
    };
    format!("{}{reason}{part}", word(d))
}

fn summary(judged: &[Judged]) -> String {
    let count = |name: &str| judged.iter().filter(|j| word(&j.decision) == name).count();
    format!(
        "{} reproduced, {} not reproduced, {}, {} not decided",
        count("reproduced"),
        count("not reproduced"),
        counted(count("anchor"), "anchor"),
        count("not decided")
    )
}

fn line(j: &Judged) -> String {
    let object = |d: &Decision| {
        let mut object: serde_json::Value = serde_json::from_str(&json(d)).unwrap_or_default();
        object["verdict"] = word(d).into();
        if let Some(anchor) = &d.anchor {
            object["anchor"] = anchor.clone().into();
        }
        object
    };
    let mut whole = object(&j.decision);
    if let Some(ours) = &j.ours {
        whole[OURS] = word(ours).into();
    }
    whole.to_string()
}

fn table(library: &Library, judged: &[Judged]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        table.set_width(WIDTH);
    }
    table.set_header(["claim", "says", "simulated", "verdict", "with our engine"]);
    for Judged { decision, ours } in judged {
        let claim = library.ledger.get(&decision.id).map_or("", |c| c.claim.as_str());
        let ours = ours.as_ref().map_or("", word);
        table.add_row([decision.id.as_str(), claim, &values(decision), &verdict(decision), ours]);
    }
    table
}

/// The values without the lists of whole experiments.
fn values(d: &Decision) -> String {
    const LONG: usize = 12;
    let mut short = d.clone();
    short.values.retain(|(_, values)| values.len() <= LONG);
    measured(&short)
}

fn page(library: &Library, judged: &[Judged], args: &ClaimsArgs) -> String {
    let mut page = String::from("# The papers' claims on their machines, simulated\n\n");
    let option = args.engine_profile.as_ref().map_or(String::new(), |p| format!(" --engine-profile {p}"));
    let _ = writeln!(
        page,
        "Generated by `atoll claims --how simulated{option} --markdown` (version {}, commit {}): {}.\n\n\
         Nothing here was measured. `deploysim` predicts the rows of `experiments/simulated-*.toml` on the described \
         machines of `machines/*.toml`, with the engine profile of the paper ({}). `experiments/simulated.toml` \
         holds the expressions. An anchor is a figure to which a profile was fitted: it does not count as reproduced. \
         The last column is the verdict with the costs of this engine, as information.\n",
        driver::VERSION,
        version::COMMIT,
        summary(judged),
        engine(args.engine_profile.as_deref()),
    );
    page +=
        "| claim | says | accepted | simulated | verdict | with our engine |\n|---|---|---|---|---|---|\n";
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let is_decided = |j: &&Judged| !matches!(j.decision.verdict, ClaimVerdict::NotDecidable(_));
    for j in judged.iter().filter(is_decided) {
        let Some(claim) = library.ledger.get(&j.decision.id) else { continue };
        let ours = j.ours.as_ref().map_or("", word);
        let cells = [&claim.id, &claim.claim, &claim.expected, &values(&j.decision), &verdict(&j.decision)];
        let cells: Vec<String> = cells.into_iter().map(|text| cell(text)).collect();
        let _ = writeln!(page, "| {} | {ours} |", cells.join(" | "));
    }
    page += "\n## Not reproduced, and why\n\n";
    for j in judged {
        if let ClaimVerdict::NotReproduced(failed) = &j.decision.verdict {
            let id = &j.decision.id;
            let remark =
                library.simulated.get(id).and_then(|e| e.remark.as_deref()).unwrap_or("No explanation yet.");
            let _ = writeln!(page, "- **{id}** (`{}`): {remark}", failed.join("`, `"));
        }
    }
    page += "\n## Not decided\n\n";
    let mut waits: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for j in judged {
        if let ClaimVerdict::NotDecidable(why) = &j.decision.verdict {
            waits.entry(why).or_default().push(&j.decision.id);
        }
    }
    for (why, ids) in waits {
        let _ = writeln!(page, "- {why}: {}", ids.join(", "));
    }
    page
}
