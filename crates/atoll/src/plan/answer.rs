//! The output of `atoll plan`: the plan, where its choice changes, a map, a comparison, settings.

use super::question::Question;
use crate::cli::ChannelArg;
use crate::failure::Failure;
use advisor::explain::Explanation;
use advisor::flip::crossing;
use advisor::map::Axis;
use advisor::plan::{Entry, Plan, PlannedMachine, PlannedSearch, PlannedWorkload, VERSION};
use advisor::settings::{Isle, Server};
use advisor::simulated::{ClosedForm, Simulation, instances};
use advisor::{BreakEven, Candidate, Found, Map, Predictor};
use time::OffsetDateTime;
use topology::{InstancePlace, place};

/// The plan of the model.
pub fn plan(question: &Question<'_>, found: Found) -> Result<Plan, Failure> {
    let args = question.args;
    let levels = question.levels;
    let why = found.unpredicted.iter().map(|(candidate, why)| format!("{candidate}: {why}"));
    let search = PlannedSearch {
        profile: format!("{} of {}", question.profile.name, question.profile.date),
        screened: found.screened,
        refined: found.refined,
        unpredicted: why.collect(),
        calibrated: question.calibration.as_ref().map(super::calibration::words),
        borrowed: borrowed(question),
        ..PlannedSearch::default()
    };
    Ok(Plan {
        version: VERSION,
        date: OffsetDateTime::now_utc().date().to_string(),
        program: driver::VERSION.to_owned(),
        objective: args.objective.to_string(),
        workload: PlannedWorkload { name: args.workload.clone(), options: question.bench_options() },
        machine: PlannedMachine {
            argument: args.machine.clone(),
            name: question.machine.name().to_owned(),
            cores: levels.cores,
            packages: levels.packages,
            l3_groups: levels.l3_groups,
            assumed: assumed(question),
        },
        search,
        break_even: Vec::new(),
        ranking: found.ranking.into_iter().map(Entry::from).collect(),
    })
}

/// The terms of the machine that were not given and that matter here.
fn assumed(question: &Question<'_>) -> Vec<String> {
    let has_rdma = question.args.channels.contains(&ChannelArg::Rdma);
    let defaulted = question.machine.defaulted().iter();
    defaulted.filter(|term| has_rdma || *term != "rdma_ns").cloned().collect()
}

fn borrowed(question: &Question<'_>) -> Vec<String> {
    let designs = question.profile.designs.iter();
    designs.filter(|(_, costs)| costs.borrowed_from.is_some()).map(|(name, _)| name.clone()).collect()
}

/// Multisite shares are found to within half a per cent.
const TOLERANCE: f64 = 0.5;
/// Up to this many workers the simulation finds the crossing; the closed form beyond.
const MOST_SIMULATED: usize = 64;

/// The multisite share at which the choice and the best deployment with another number of islands
/// are equal, by the model. Empty if the workload has no such share, or if one of them always wins.
pub fn break_even(question: &Question<'_>, plan: &Plan) -> Vec<BreakEven> {
    let choice = &plan.choice().candidate;
    let other = plan.ranking[1..].iter().map(|entry| &entry.candidate);
    let Some(rival) = other.into_iter().find(|c| c.islands != choice.islands) else { return Vec::new() };
    if question.subject.labels().multisite.is_none() {
        return Vec::new();
    }
    let is_quick = choice.workers > MOST_SIMULATED;
    let mut at_least = None;
    let advantage = |multisite: f64| -> Result<f64, String> {
        let transactions =
            question.transactions_at(&[("multisite", multisite)]).map_err(|e| e.to_string())?;
        let setting = question.setting_with(&transactions);
        let tps = |candidate: &Candidate| {
            let prediction = match is_quick {
                true => ClosedForm(setting).predict(candidate),
                false => Simulation(setting).predict(candidate),
            };
            prediction.map(|p| p.tps.mid)
        };
        let lead = (tps(choice)? / tps(rival)?).ln();
        at_least.get_or_insert(lead);
        Ok(lead)
    };
    let found = crossing((0.0, 100.0), TOLERANCE, advantage);
    let (Ok(Some(at)), Some(first)) = (found, at_least) else { return Vec::new() };
    let (below, above) = if first > 0.0 { (choice, rival) } else { (rival, choice) };
    vec![BreakEven { axis: "multisite".to_owned(), at, below: below.to_string(), above: above.to_string() }]
}

/// The values of a map's axes. Choices flip at small multisite shares.
fn axis(name: &str) -> Result<Axis, Failure> {
    let values: &[f64] = match name {
        "multisite" => &[0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0],
        "skew" => &[0.0, 0.25, 0.5, 0.75, 1.0],
        "rows" => &[2.0, 4.0, 10.0, 20.0, 50.0, 100.0],
        other => {
            return Err(Failure::Usage(format!(
                "--map {other}: no such axis; expected two of multisite, skew, rows"
            )));
        }
    };
    Ok(Axis { name: name.to_owned(), values: values.to_vec() })
}

pub fn map(question: &Question<'_>) -> Result<Map, Failure> {
    let [x, y] = question.args.map.as_slice() else {
        return Err(Failure::Usage("--map: expected two axes, such as multisite,skew".into()));
    };
    if x == y {
        return Err(Failure::Usage(format!("--map {x},{y}: expected two different axes")));
    }
    let words = (question.machine.name(), question.args.workload.as_str());
    let advise = |at_x: f64, at_y: f64| -> Result<Found, MapFailure> {
        let transactions = question.transactions_at(&[(x, at_x), (y, at_y)]).map_err(MapFailure)?;
        Ok(question.search_for(&transactions)?)
    };
    Map::draw(words, axis(x)?, axis(y)?, advise).map_err(|MapFailure(failure)| failure)
}

/// A failure that `advisor` can return.
struct MapFailure(Failure);

impl From<advisor::AdviceError> for MapFailure {
    fn from(error: advisor::AdviceError) -> MapFailure {
        MapFailure(super::refused(error))
    }
}

/// Compares two deployments by the simulation.
pub fn explain(
    question: &Question<'_>,
    found: &Found,
    first: &str,
    second: &str,
) -> Result<Explanation, Failure> {
    let simulation = Simulation(question.setting());
    let predict = |text: &str| -> Result<_, Failure> {
        let candidate = named(question, found, text)?;
        let prediction = simulation.predict(candidate).map_err(Failure::Usage)?;
        Ok((candidate.to_string(), prediction))
    };
    let (a, b) = (predict(first)?, predict(second)?);
    let told = advisor::explain((&a.0, &a.1), (&b.0, &b.1));
    told.ok_or_else(|| Failure::Run("the simulation gave no costs by component".into()))
}

/// A rank, or `design/islands[/channel]`.
fn named<'f>(question: &'f Question<'_>, found: &'f Found, text: &str) -> Result<&'f Candidate, Failure> {
    let unknown = || {
        let best = &found.ranking[0].candidate;
        let channel = best.channel.map_or(String::new(), |c| format!("/{}", c.name()));
        Failure::Usage(format!(
            "--explain {text}: no such deployment; expected 1 to {} of the ranking, or design/islands[/channel] such as \
             {}/{}{channel}",
            found.ranking.len(),
            best.design,
            best.islands
        ))
    };
    if let Ok(rank) = text.parse::<usize>() {
        let at = rank.checked_sub(1).and_then(|at| found.ranking.get(at));
        return at.map(|ranked| &ranked.candidate).ok_or_else(unknown);
    }
    let words: Vec<&str> = text.split('/').collect();
    let fits = |c: &&Candidate| match words.as_slice() {
        [design, islands] => c.design == *design && c.islands.to_string() == *islands,
        [design, islands, channel] => {
            c.design == *design
                && c.islands.to_string() == *islands
                && c.channel.is_some_and(|known| known.name() == *channel)
        }
        _ => false,
    };
    question.candidates.iter().find(fits).ok_or_else(unknown)
}

/// The choice's islands as settings of another server.
pub fn settings(question: &Question<'_>, plan: &Plan, server: Server) -> Result<String, Failure> {
    let choice = &plan.choice().candidate;
    let (isles, memory) = match &question.live {
        Some(live) => {
            let layout =
                place(live, choice.islands, choice.workers, choice.placement).map_err(Failure::usage)?;
            let whole: Option<u64> = live.nodes.iter().map(|node| node.bytes).sum();
            let memory = live.limits.memory_bytes.or(whole.filter(|bytes| *bytes > 0));
            (layout.instances.iter().map(isle_here).collect(), memory)
        }
        None => (isles_of(question, choice)?, None),
    };
    let isles: Vec<Isle> = isles;
    let head = format!("# {} for {} on {}\n# {}\n\n", server, plan.workload.name, plan.machine.name, choice);
    Ok(head + &advisor::settings::settings(server, &isles, memory))
}

fn isle_here(place: &InstancePlace) -> Isle {
    let mut cpus: Vec<u32> = place.cpus.iter().flatten().map(|cpu| cpu.0).collect();
    cpus.sort_unstable();
    cpus.dedup();
    Isle { cpus, nodes: place.node.into_iter().map(|node| node.0).collect() }
}

/// On a described machine the positions of cores stand for the numbers of CPUs, and packages for
/// nodes.
fn isles_of(question: &Question<'_>, choice: &Candidate) -> Result<Vec<Isle>, Failure> {
    let instances = instances(&question.machine, choice).map_err(Failure::Usage)?;
    let isle = |cores: Vec<usize>| {
        let mut cpus: Vec<u32> = cores.iter().map(|core| *core as u32).collect();
        cpus.sort_unstable();
        let mut nodes: Vec<u32> = cores.iter().map(|core| question.machine.package(*core) as u32).collect();
        nodes.sort_unstable();
        nodes.dedup();
        Isle { cpus, nodes }
    };
    Ok(instances.into_iter().map(isle).collect())
}

/// The plan as a JSON object, with the command that deploys the choice.
pub fn json(plan: &Plan) -> Result<String, Failure> {
    let mut object = serde_json::to_value(plan).map_err(Failure::run)?;
    object["command"] = format!("atoll {}", plan.bench_words().join(" ")).into();
    object["margin"] = plan.margin().into();
    object["tie"] = plan.is_tie().into();
    Ok(object.to_string())
}
