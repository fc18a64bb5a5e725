//! Turns options into the load on a deployment: its clients, and how the load changes over time.

use crate::cli::{LoadModelArg, MeasuringArgs};
use crate::failure::Failure;
use crate::patience::interruptibly;
use deploy::Interrupt;
use driver::{Arrivals, LoadModel, Phases, Rate, Retries, Schedule, Subject, Think, Traffic};
use std::time::Duration;
use traffic::LoadChange;
use workload::WorkloadSpec;

/// Defaults for each worker: the clients of a closed loop, and the concurrent requests of an open
/// one.
const CLIENTS: u32 = 4;
const CLERKS: u32 = 64;
/// The default number of windows; a load that changes has one.
pub const REPEAT: u32 = 3;

/// The options that describe the load, and the script.
pub struct Demand<'a> {
    args: &'a MeasuringArgs,
    phases: Option<Phases>,
}

impl Demand<'_> {
    /// # Errors
    /// Options that contradict each other; a script that cannot be read or that has a wrong line.
    pub fn new<'a>(args: &'a MeasuringArgs, interrupt: &Interrupt) -> Result<Demand<'a>, Failure> {
        let refuse = |text: &str| Err(Failure::Usage(text.into()));
        let open = args.load_model == LoadModelArg::Open;
        let people = args.think.is_some() || args.terminals.is_some();
        match () {
            () if open && args.rate.is_empty() => {
                return refuse("--load-model open: at which rate? Expected --rate TPS, such as --rate 5000");
            }
            () if !open && !args.rate.is_empty() => {
                return refuse("--rate: a closed loop has none; add --load-model open, or leave it out");
            }
            () if !open && args.arrivals.is_some() => {
                return refuse(
                    "--arrivals: only of an open loop; add --load-model open --rate TPS, or leave it out",
                );
            }
            () if open && people => {
                return refuse(
                    "--think, --terminals: people wait for their answers, an open loop does not; leave out one of both",
                );
            }
            () if args.kill.is_some() && (open || people || args.phases.is_some()) => {
                return refuse(
                    "--kill: its clients are a closed loop outside the instances; leave out --load-model, --think and --phases",
                );
            }
            () => {}
        }
        let phases = match &args.phases {
            None => None,
            Some(path) => {
                let name = path.display().to_string();
                let file = path.clone();
                let text = match interruptibly(interrupt, move || std::fs::read_to_string(file))? {
                    Ok(text) => text,
                    Err(_) if name.contains(':') => name.replace(';', "\n").replace(':', " "),
                    Err(e) => {
                        return refuse(&format!(
                            "--phases {name}: {e}; expected a file of lines such as 10s hot 50/30, or 10s:hot:50/30"
                        ));
                    }
                };
                Some(Phases::parse(&name, &text).map_err(Failure::usage)?)
            }
        };
        Ok(Demand { args, phases })
    }

    /// Every load on `subject`; the rate varies fastest. `schedule` holds the parts that do not
    /// depend on the load; `backoff` is the first pause before a retry, unless the options set it.
    ///
    /// # Errors
    /// Terminals for a workload that has none; a phase that does not fit it.
    pub fn schedules(
        &self,
        subject: &Subject,
        schedule: &Schedule,
        backoff: Duration,
    ) -> Result<Vec<Schedule>, Failure> {
        let mut all = Vec::new();
        for model in self.models(subject)? {
            let default = if model == LoadModel::Closed { CLIENTS } else { CLERKS };
            let given = &self.args.clients;
            for clients in if given.is_empty() { vec![default] } else { given.clone() } {
                let retries = self.retries(backoff);
                let changes = self.phases.as_ref().map(|phases| phases.changes(subject, &model));
                let changes = changes.transpose().map_err(Failure::usage)?.unwrap_or_default();
                let ramp = matches!(model, LoadModel::Open { rate, .. } if rate.is_ramp());
                let moves = ramp || !changes.is_empty();
                let repeat = self.args.repeat.unwrap_or(if moves { 1 } else { REPEAT });
                in_time(&changes, self.args.duration * repeat)?;
                all.push(Schedule {
                    traffic: Traffic { model, clients, retries },
                    repeat,
                    phases: self.phases.as_ref().map(|p| p.script()),
                    changes,
                    ..schedule.clone()
                });
            }
        }
        Ok(all)
    }

    fn retries(&self, default: Duration) -> Retries {
        let backoff = self.args.backoff.map_or(default, |backoff| backoff.0);
        Retries { limit: self.args.retries.0, backoff_ns: backoff.as_nanos() as u64 }
    }

    fn models(&self, subject: &Subject) -> Result<Vec<LoadModel>, Failure> {
        let args = self.args;
        if args.load_model == LoadModelArg::Open {
            let arrivals = args.arrivals.unwrap_or(Arrivals::Poisson);
            return Ok(args.rate.iter().map(|&rate: &Rate| LoadModel::Open { rate, arrivals }).collect());
        }
        let think = args.think.unwrap_or(Think::NONE);
        if think == Think::NONE && args.terminals.is_none() {
            return Ok(vec![LoadModel::Closed]);
        }
        let Some(people) = subject.terminals() else {
            let name = &subject.spec().name;
            return Err(Failure::Usage(format!(
                "--think, --terminals: {name} has no people at terminals, tpcc has; leave it out"
            )));
        };
        let terminals = args.terminals.unwrap_or(people.per_site.saturating_mul(subject.sites()));
        Ok(vec![LoadModel::Terminals { terminals, think }])
    }
}

/// # Errors
/// A change that is due after the last window.
fn in_time(changes: &[LoadChange<WorkloadSpec>], measured: Duration) -> Result<(), Failure> {
    let Some(late) = changes.iter().find(|change| Duration::from_nanos(change.at_ns) >= measured) else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "--phases: the change at {}s never comes: {}s are measured (--duration times --repeat); expected an earlier one, or a \
         longer --duration",
        Duration::from_nanos(late.at_ns).as_secs_f64(),
        measured.as_secs_f64()
    )))
}

/// A schedule with only the duration and the seed.
pub fn outline(args: &MeasuringArgs) -> Schedule {
    Schedule {
        warmup: args.warmup,
        duration: args.duration,
        repeat: args.repeat.unwrap_or(REPEAT),
        traffic: Traffic::closed(CLIENTS),
        changes: Vec::new(),
        phases: None,
        seed: args.seed,
        profiling: if args.profile { driver::Profiling::ON } else { driver::Profiling::Off },
    }
}
