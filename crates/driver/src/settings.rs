//! The settings of a row: the requested options, before and after the measurement.

use crate::engine_columns::EngineColumns;
use crate::row::Settings;
use crate::session::Schedule;
use crate::subject::Subject;
use deploy::Deployment;
use deploy::engine::Backing;
use traffic::{LoadModel, Traffic};

impl Settings {
    /// The settings of the row for `subject` on `deployment`; `placement` as the row names it.
    pub fn of(deployment: &Deployment, placement: &str, subject: &Subject, schedule: &Schedule) -> Settings {
        let d = deployment;
        Settings {
            workload: subject.spec().name.clone(),
            design: Some(d.design.to_string()),
            islands: Some(d.islands),
            workers: Some(d.workers),
            hosts: d.machines.as_ref().map(|machines| machines.count() as u16),
            placement: Some(placement.into()),
            host: Some(d.host.name().into()),
            channel: Some(d.channel.name().into()),
            durability: Some(deploy::durability_name(d.durability).into()),
            engine: EngineColumns::of(&d.run()),
            clients: Some(schedule.traffic.clients),
            memory_mib: Some(d.pool_bytes as f64 / f64::from(1 << 20)),
            populated: (d.backing == Backing::AtStart).then_some(true),
            labels: subject.labels(),
            phases: schedule.phases.clone(),
            seed: Some(schedule.seed),
            ..of_load(&schedule.traffic)
        }
    }
}

fn of_load(traffic: &Traffic) -> Settings {
    let backoff_ns = traffic.retries.backoff_ns;
    let mut settings = Settings {
        load_model: Some("closed".into()),
        retry_limit: traffic.retries.limit,
        backoff_us: (backoff_ns > 0).then_some(backoff_ns as f64 / 1000.0),
        ..Settings::default()
    };
    match traffic.model {
        LoadModel::Closed => {}
        LoadModel::Open { rate, arrivals } => {
            settings.load_model = Some("open".into());
            settings.rate = Some(rate.to_string());
            settings.arrivals = Some(arrivals.name().into());
        }
        LoadModel::Terminals { terminals, think } => {
            settings.terminals = Some(terminals);
            settings.think = Some(think.to_string());
        }
    }
    settings
}
