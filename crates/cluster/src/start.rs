//! Starts and ends agents for experiments, through the command that the hosts file names for each
//! host. In steady state a service manager starts them.

use crate::fleet::{end, status};
use crate::{ClusterError, HostLine, Hosts};
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long an agent may take to answer after its start, and to be gone after its end.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long an agent that is there takes to be reached.
const GLANCE: Duration = Duration::from_millis(500);
/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The words of the command that starts the agent of a host. `own`: this program.
pub fn command(hosts: &Hosts, host: &HostLine, own: &Path) -> Vec<String> {
    let over_network = host.reach.first().is_some_and(|word| word == "ssh");
    let default = if over_network { "atoll".into() } else { own.display().to_string() };
    let mut words = host.reach.clone();
    words.push(host.program.clone().unwrap_or(default));
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    option("agent", format!("--cluster={}", hosts.cluster));
    option("--machine", host.name.clone());
    option("--listen", host.address.to_string());
    option("--data", host.data.display().to_string());
    if let Some(cores) = &host.cores {
        option("--cores", cores.clone());
    }
    if let Some(etcd) = &hosts.etcd {
        option("--etcd", etcd.clone());
    }
    if let (Some(relay), Some(_)) = (&hosts.relay, &hosts.etcd) {
        option("--relay", relay.clone());
        option("--takeover", hosts.take_over.name().into());
    }
    if let Some(tls) = &hosts.tls {
        option("--tls", tls.join(&host.name).display().to_string());
    }
    words
}

/// Where the output of a host's agent goes.
///
/// # Errors
/// The directory cannot be made.
pub fn log_of(hosts: &Hosts, host: &HostLine) -> Result<PathBuf, ClusterError> {
    let dir = std::env::temp_dir().join(format!("atoll-agents-{}", hosts.cluster));
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.map_err(|why| ClusterError::Data { path: dir.clone(), why })?;
    Ok(dir.join(format!("{}.log", host.name)))
}

/// Starts the agents that do not answer, and waits until all do. Returns the hosts of these agents.
/// `own`: the program that runs now.
///
/// # Errors
/// An agent ends or does not answer; the message has its last line.
pub fn up(hosts: &Hosts, build: &str, own: &Path) -> Result<Vec<String>, ClusterError> {
    let mut started = Vec::new();
    for status in status(hosts, build, GLANCE)? {
        match status.agent {
            Ok(_) => {}
            Err(ClusterError::Unreachable { .. }) => {
                let child = spawn(hosts, &status.line, own)?;
                started.push((status.line, child));
            }
            Err(other) => return Err(other),
        }
    }
    await_all(hosts, build, &mut started)?;
    Ok(started.into_iter().map(|(host, _)| host.name).collect())
}

fn spawn(hosts: &Hosts, host: &HostLine, own: &Path) -> Result<Child, ClusterError> {
    let words = command(hosts, host, own);
    let log = log_of(hosts, host)?;
    let output = File::create(&log).map_err(|why| ClusterError::Data { path: log, why })?;
    let failed = |why: std::io::Error| ClusterError::Host {
        host: host.name.clone(),
        why: format!("cannot run `{}`: {why}; correct the command in the hosts file", words.join(" ")),
    };
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).process_group(0);
    command.stderr(output.try_clone().map_err(failed)?).stdout(output).spawn().map_err(failed)
}

fn await_all(hosts: &Hosts, build: &str, started: &mut [(HostLine, Child)]) -> Result<(), ClusterError> {
    let until = Instant::now() + PATIENCE;
    loop {
        let waiting = status(hosts, build, GLANCE)?.into_iter().find_map(|status| status.agent.err());
        let Some(why) = waiting else { return Ok(()) };
        if !matches!(why, ClusterError::Unreachable { .. }) {
            return Err(why);
        }
        for (host, child) in &mut *started {
            if let Ok(Some(status)) = child.try_wait() {
                let why = format!("its agent ended at once ({status}): {}", last_line(hosts, host));
                return Err(ClusterError::Host { host: host.name.clone(), why });
            }
        }
        if Instant::now() > until {
            return Err(why);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The last line that the agent wrote.
fn last_line(hosts: &Hosts, host: &HostLine) -> String {
    let text = log_of(hosts, host).ok().and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default();
    text.lines().last().unwrap_or("it wrote nothing").to_owned()
}

/// Ends the agents that are there, with their instances, and waits until they are gone. Returns
/// their hosts.
///
/// # Errors
/// An agent refuses, or does not end.
pub fn down(hosts: &Hosts, build: &str) -> Result<Vec<String>, ClusterError> {
    let mut ended = Vec::new();
    for host in &hosts.lines {
        if end(hosts, host, build)? {
            ended.push(host.name.clone());
        }
    }
    let until = Instant::now() + PATIENCE;
    while status(hosts, build, GLANCE)?.iter().any(|status| status.agent.is_ok()) {
        if Instant::now() > until {
            let why = format!("its agent did not end within {} s", PATIENCE.as_secs());
            return Err(ClusterError::Host { host: ended.join(", "), why });
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_host_is_run_through_its_reach() {
        let text = "cluster c\ntls /t\na 10.0.0.1:7 ip netns exec h1 cores=0 data=/d\nb 10.0.0.2:7 ssh b\n";
        let hosts = Hosts::parse(Path::new("hosts"), text).unwrap();
        let of = |i: usize| command(&hosts, &hosts.lines[i], Path::new("/bin/atoll")).join(" ");
        assert_eq!(
            of(0),
            "ip netns exec h1 /bin/atoll agent --cluster=c --machine a --listen 10.0.0.1:7 --data /d --cores 0 --tls /t/a"
        );
        assert!(of(1).starts_with("ssh b atoll agent --cluster=c --machine b"), "{}", of(1));
        let text = "etcd http://e:1\nrelay nats://r:2\ntakeover operator\na 10.0.0.1:7 local\n";
        let hosts = Hosts::parse(Path::new("hosts"), text).unwrap();
        let words = command(&hosts, &hosts.lines[0], Path::new("/bin/atoll")).join(" ");
        assert!(words.ends_with("--etcd http://e:1 --relay nats://r:2 --takeover operator"), "{words}");
    }
}
