//! `atoll agent`, and `atoll cluster`: starts, ends and shows the agents of a hosts file, and makes
//! their certificates.

use crate::cli::{
    AgentArgs, CertificatesArgs, ClusterArgs, ClusterCommand, CopyArgs, DrainArgs, HostsArgs, StatusArgs,
    TakeoverArgs,
};
use crate::failure::Failure;
use crate::leased::{AtRelay, Leased};
use crate::output::print;
use crate::{service, version};
use base::{InstanceId, counted};
use channel::{Guarding, Role};
use cluster::protocol::AgentStatus;
use cluster::{ClusterError, Fleet, HostStatus, Hosts, Loss, TakeOver, agent, start};
use deploy::Interrupt;
use std::path::Path;
use topology::Machine;
use trust::Holder;

/// The guard of an instance, from the directory of its machine's certificates.
///
/// # Errors
/// They cannot be used.
pub fn guards(dir: &Path) -> Result<Guarding, String> {
    trust::guard(dir).map(|guard| Guarding(Some(guard))).map_err(|e| e.to_string())
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Failure {
        match error {
            ClusterError::Deploy(error) => error.into(),
            error if error.is_usage() => Failure::usage(error),
            error => Failure::run(error),
        }
    }
}

pub fn run_agent(args: &AgentArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    if args.listen.port() == 0 {
        return Err(Failure::Usage(format!(
            "--listen {}: expected an address with a port, such as 10.0.0.1:7400, as the hosts file has it",
            args.listen
        )));
    }
    if args.tls.is_none() && !args.listen.ip().is_loopback() {
        world::tell(format_args!(
            "atoll: warning: without --tls every program that reaches {} can give orders, and nothing is encrypted; expected a \
             network that you trust",
            args.listen
        ));
    }
    let lease = match &args.etcd {
        None => None,
        Some(etcd) => Some(Leased::begin(etcd, &args.cluster, &args.machine, &args.listen.to_string())?),
    };
    let options = agent::Options {
        cluster: args.cluster.clone(),
        machine: args.machine.clone(),
        listen: args.listen,
        data: args.data.clone(),
        cores: args.cores.clone(),
        tls: args.tls.clone(),
        build: version::short(),
        lease: lease.map(|lease| Box::new(lease) as Box<dyn agent::Lease>),
        logs: match (&args.relay, args.takeover) {
            (Some(relay), TakeOver::Agents) => {
                Some(Box::new(AtRelay { address: relay.clone(), cluster: args.cluster.clone() }))
            }
            _ => None,
        },
    };
    agent::run(options, interrupt, &mut |address| {
        // An agent with a closed output serves all the same.
        let _ = print(&format!("agent of machine {} in cluster {} at {address}", args.machine, args.cluster));
        service::tell("READY=1");
    })?;
    service::tell("STOPPING=1");
    Ok(())
}

pub fn run(args: &ClusterArgs) -> Result<(), Failure> {
    match &args.command {
        ClusterCommand::Up(args) => up(args),
        ClusterCommand::Down(args) => down(args),
        ClusterCommand::Status(args) => status(args),
        ClusterCommand::Certificates(args) => certificates(args),
        ClusterCommand::Move(args) => {
            let mut fleet = open(&args.hosts, &args.data, &args.to)?;
            move_one(&mut fleet, &args.data, InstanceId(args.island), &args.to)
        }
        ClusterCommand::Drain(args) => drain(args),
        ClusterCommand::Copy(args) => copy(args),
        ClusterCommand::Takeover(args) => take_over(args),
    }
}

/// The fleet with the places of a database. `host` must be in the hosts file.
fn open(args: &HostsArgs, database: &str, host: &str) -> Result<Fleet, Failure> {
    let hosts = Hosts::read(&args.hosts)?;
    host_of(&hosts, host)?;
    Ok(Fleet::open(&hosts, &version::short(), Some(database))?)
}

fn move_one(fleet: &mut Fleet, database: &str, island: InstanceId, to: &str) -> Result<(), Failure> {
    let from = fleet.move_island(database, island, to)?;
    print(&format!("island {island} of {database} has moved from host {from} to host {to}"))
}

fn drain(args: &DrainArgs) -> Result<(), Failure> {
    let mut fleet = open(&args.hosts, &args.data, &args.host)?;
    let islands = fleet.islands_of(&args.host);
    if islands.is_empty() {
        return print(&format!("host {} has no island of {}", args.host, args.data));
    }
    for island in islands {
        let to = fleet.emptiest(&args.host).ok_or_else(|| {
            Failure::Usage(format!("host {} is the only one of the hosts file: nothing can move", args.host))
        })?;
        move_one(&mut fleet, &args.data, island, &to)?;
    }
    Ok(())
}

fn copy(args: &CopyArgs) -> Result<(), Failure> {
    let hosts = Hosts::read(&args.hosts.hosts)?;
    let fleet = Fleet::open(&hosts, &version::short(), Some(&args.data))?;
    let copied = fleet.copy(&args.data)?;
    if copied.is_empty() {
        return print(&format!("no host has an island of {}", args.data));
    }
    for (island, from, to) in copied {
        print(&format!(
            "island {island} of {}, which is on host {from}, has a copy on host {to}",
            args.data
        ))?;
    }
    Ok(())
}

fn take_over(args: &TakeoverArgs) -> Result<(), Failure> {
    let mut hosts = Hosts::read(&args.hosts.hosts)?;
    for gone in &args.gone {
        host_of(&hosts, gone)?;
    }
    hosts.lines.retain(|line| !args.gone.contains(&line.name));
    if hosts.lines.is_empty() {
        let why = "all hosts of the hosts file are named: expected at least one that takes the islands";
        return Err(Failure::Usage(why.into()));
    }
    let fleet = Fleet::open(&hosts, &version::short(), None)?;
    let loss = if args.accept_loss { Loss::Accept } else { Loss::Refuse };
    let taken = fleet.take_over(&args.data, loss)?;
    if taken.is_empty() {
        return print(&format!("no island of {} was on {}", args.data, args.gone.join(", ")));
    }
    for (island, to) in taken {
        print(&format!("island {island} of {} is on host {to} now", args.data))?;
    }
    Ok(())
}

fn host_of(hosts: &Hosts, name: &str) -> Result<(), Failure> {
    if hosts.lines.iter().any(|line| line.name == name) {
        return Ok(());
    }
    let names: Vec<&str> = hosts.lines.iter().map(|line| line.name.as_str()).collect();
    Err(Failure::Usage(format!("host {name}: the hosts file has {}", names.join(", "))))
}

fn up(args: &HostsArgs) -> Result<(), Failure> {
    let hosts = Hosts::read(&args.hosts)?;
    let own = std::env::current_exe().map_err(Failure::run)?;
    let started = start::up(&hosts, &version::short(), &own)?;
    let there = hosts.lines.len() - started.len();
    let names = if started.is_empty() { String::new() } else { format!(": {}", started.join(", ")) };
    print(&format!(
        "cluster {} is up on {}; agents started here{names} ({}), there before {there}",
        hosts.cluster,
        counted(hosts.lines.len(), "host"),
        started.len(),
    ))
}

fn down(args: &HostsArgs) -> Result<(), Failure> {
    let hosts = Hosts::read(&args.hosts)?;
    let ended = start::down(&hosts, &version::short())?;
    match ended.is_empty() {
        true => print(&format!("cluster {} was down", hosts.cluster)),
        false => print(&format!("cluster {} is down; agents ended: {}", hosts.cluster, ended.join(", "))),
    }
}

fn status(args: &StatusArgs) -> Result<(), Failure> {
    let hosts = Hosts::read(&args.hosts.hosts)?;
    let all = cluster::status(&hosts, &version::short(), args.patience)?;
    let missing = all.iter().filter(|status| status.agent.is_err()).count();
    for status in &all {
        print(&if args.json { as_json(status) } else { in_words(status) })?;
    }
    match missing {
        0 => Ok(()),
        n => Err(Failure::Run(format!("{} of {} cannot be used, see above", n, counted(all.len(), "host")))),
    }
}

fn cores(agent: &AgentStatus) -> usize {
    serde_json::from_str(&agent.topology).map_or(0, |machine: Machine| machine.cores())
}

fn in_words(status: &HostStatus) -> String {
    let line = &status.line;
    let begin = format!("{:<10} {:<22}", line.name, line.address.to_string());
    let agent = match &status.agent {
        Err(why) => return format!("{begin} {why}"),
        Ok(agent) => agent,
    };
    let instances: Vec<String> = agent
        .deployments
        .iter()
        .flat_map(|deployment| &deployment.instances)
        .map(|i| match i.restarts {
            0 => format!("{} (process {})", i.instance, i.pid),
            n => format!("{} (process {}, started again {})", i.instance, i.pid, counted(n, "time")),
        })
        .collect();
    let instances = if instances.is_empty() { "none".into() } else { instances.join(", ") };
    let mut text =
        format!("{begin} up {} s, {}, instances: {instances}", agent.up_s, counted(cores(agent), "core"));
    for taken in &agent.taken {
        let (island, from, seconds) = (taken.island, &taken.from, taken.ago_ms as f64 / 1000.0);
        text += &format!(
            "\n           has taken over island {island} of {} from {from}, {seconds:.1} s ago",
            taken.database
        );
    }
    for refused in &agent.refused {
        let (island, from, why) = (refused.island, &refused.from, &refused.why);
        text += &format!(
            "\n           does not take over island {island} of {} from {from}: {why}",
            refused.database
        );
    }
    text
}

fn as_json(status: &HostStatus) -> String {
    let (name, address) = (&status.line.name, status.line.address.to_string());
    let object = match &status.agent {
        Err(why) => serde_json::json!({ "host": name, "address": address, "error": why.to_string() }),
        Ok(agent) => serde_json::json!({
            "host": name, "address": address, "build": agent.build, "up_s": agent.up_s, "cores": cores(agent),
            "deployments": agent.deployments, "taken": agent.taken, "refused": agent.refused,
        }),
    };
    object.to_string()
}

fn certificates(args: &CertificatesArgs) -> Result<(), Failure> {
    let hosts = Hosts::read(&args.hosts.hosts)?;
    let machines = hosts.lines.iter().map(|line| Holder {
        name: line.name.clone(),
        role: Role::Machine,
        address: Some(line.address.ip()),
    });
    let others =
        [Role::Operator, Role::Client].map(|role| Holder { name: role.name().into(), role, address: None });
    let holders: Vec<Holder> = machines.chain(others).collect();
    let made = trust::make(&args.dir, &hosts.cluster, &holders, args.days).map_err(Failure::run)?;
    let authority = if made.new_authority { "a new authority" } else { "the authority that was there" };
    print(&format!(
        "{} in {}, signed by {authority}, valid for {}: {}",
        counted(made.directories.len(), "certificate"),
        args.dir.display(),
        counted(args.days, "day"),
        made.directories.join(", ")
    ))
}
