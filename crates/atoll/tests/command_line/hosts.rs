//! Deployments over several hosts. The hosts are loopback addresses: each agent has one of its own,
//! and everything between two of them goes through TCP. What needs real networks is in
//! `scripts/cluster-here`.

use super::*;
use serde_json::json;
use std::path::PathBuf;

/// A cluster of two hosts on this machine.
struct Cluster {
    sandbox: Sandbox,
    dir: TempDir,
}

impl Cluster {
    fn new(net: u8) -> Cluster {
        let cluster = Cluster { sandbox: Sandbox::new(), dir: tempfile::tempdir().unwrap() };
        cluster.write_hosts(&["a", "b"], net, "");
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Hosts at 127.`net`.0.1 and so on.
    fn write_hosts(&self, names: &[&str], net: u8, more: &str) {
        let line = |(i, name): (usize, &&str)| {
            let data = self.path(name);
            format!("{name} 127.{net}.0.{}:7400 local data={} cores=0\n", i + 1, data.display())
        };
        let lines: String = names.iter().enumerate().map(line).collect();
        std::fs::write(self.path("hosts"), format!("cluster test\n{more}{lines}")).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command(args);
        command.arg("--hosts").arg(self.path("hosts"));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        output
    }

    fn refused(&self, args: &[&str], parts: &[&str]) {
        let output = self.command(args).output().unwrap();
        let text = stderr(&output);
        assert!(!output.status.success(), "{args:?}: {text}");
        for part in parts {
            assert!(text.contains(part), "{args:?}: {part:?} in {text}");
        }
    }

    fn bench(&self, args: &[&str]) -> Value {
        let brief =
            ["bench", "tpcb", "--islands", "2", "--workers", "2", "--multisite", "50", "--accounts", "1000"];
        rows(&self.run(&[&brief[..], args, BRIEF].concat())).remove(0)
    }

    /// The processes of the instances, by the agents' word.
    fn instances(&self) -> Vec<u64> {
        let of = |host: Value| -> Vec<u64> {
            let instances = host["deployments"].as_array().cloned().unwrap_or_default();
            let pids = instances.iter().flat_map(|d| d["instances"].as_array().cloned().unwrap_or_default());
            pids.filter_map(|i| i["pid"].as_u64()).filter(|pid| *pid > 0).collect()
        };
        rows(&self.run(&["cluster", "status", "--json"])).into_iter().flat_map(of).collect()
    }

    /// Ends the agents, and checks that nothing is left but their logs.
    fn down(&self) {
        self.run(&["cluster", "down"]);
        for host in ["a", "b"] {
            let left: Vec<_> = std::fs::read_dir(self.path(host)).unwrap().flatten().collect();
            let runs = left.iter().filter(|e| e.file_name().to_string_lossy().starts_with("run-")).count();
            assert_eq!(runs, 0, "{left:?}");
        }
        std::fs::remove_dir_all(self.sandbox.tmp.path().join("atoll-agents-test")).unwrap();
        self.sandbox.assert_nothing_left();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A test that has failed leaves its agents; one that has not has ended them.
        let _ = self.command(&["cluster", "down"]).output();
    }
}

#[test]
fn a_bench_spans_the_hosts_and_leaves_nothing_there() {
    let cluster = Cluster::new(41);
    cluster.refused(&["bench", "tpcb"], &["host a cannot be reached at 127.41.0.1:7400", "atoll cluster up"]);
    cluster.run(&["cluster", "up"]);
    cluster.run(&["cluster", "up"]); // the agents are there
    let row = cluster.bench(&["--durability", "async"]);
    assert_eq!((&row["hosts"], &row["islands"], &row["consistent"]), (&json!(2), &json!(2), &json!(true)));
    assert!(row["distributed"].as_f64().unwrap() > 0.2 && row["committed"].as_u64().unwrap() > 0, "{row}");
    let four = [
        "--accounts",
        "1000",
        "--islands",
        "4",
        "--workers",
        "4",
        "--scale",
        "4",
        "--channel",
        "uds",
        "--durability",
        "memory",
    ];
    let row = rows(&cluster.run(&[&["bench", "tpcb"], &four[..], BRIEF].concat())).remove(0);
    assert_eq!((&row["hosts"], &row["consistent"]), (&json!(2), &json!(true)));
    cluster.refused(&["bench", "tpcb", "--islands", "1"], &["fewer than the 2 hosts"]);
    cluster.refused(&["bench", "tpcb", "--host", "thread"], &["--host process"]);
    cluster.down();
}

#[test]
fn an_instance_that_is_killed_is_started_again_by_its_agent() {
    let cluster = Cluster::new(42);
    cluster.run(&["cluster", "up"]);
    let args = ["bench", "tpcb", "--islands", "2", "--workers", "2", "--durability", "async", "--json"];
    let times = ["--duration", "6s", "--warmup", "1s", "--repeat", "1", "--accounts", "1000"];
    let bench = cluster.command(&[&args[..], &times].concat()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    let victim = loop {
        if let [first, _] = cluster.instances()[..] {
            break first;
        }
        assert!(Instant::now() < deadline, "no instances");
    };
    // The load of the data takes a moment; what is killed in it fails the run.
    std::thread::sleep(Duration::from_secs(2));
    signal(victim as u32, rustix::process::Signal::KILL);
    let output = bench.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let row = rows(&output).remove(0);
    assert_eq!((&row["restarts"], &row["consistent"]), (&json!(1), &json!(true)), "{row}");
    cluster.down();
}

#[test]
fn certificates_let_the_right_ones_in() {
    let cluster = Cluster::new(43);
    let tls = cluster.path("tls");
    cluster.write_hosts(&["a", "b"], 43, &format!("tls {}\n", tls.display()));
    let dir = tls.to_str().unwrap().to_owned();
    cluster.run(&["cluster", "certificates", &dir]);
    cluster.run(&["cluster", "up"]);
    let row = cluster.bench(&[]);
    assert_eq!((&row["hosts"], &row["consistent"]), (&json!(2), &json!(true)));
    // Kills go through clients outside, which have links of their own to the instances.
    let kills =
        ["bench", "tpcb", "--islands", "2", "--workers", "2", "--kill", "3", "--json", "--accounts", "1000"];
    let row = rows(&cluster.run(&[&kills[..], &["--durability", "async"]].concat())).remove(0);
    assert_eq!((&row["kills"], &row["consistent"]), (&json!(3), &json!(true)), "{row}");
    // A client gives no orders.
    std::fs::rename(tls.join("operator"), tls.join("put-by")).unwrap();
    std::fs::rename(tls.join("client"), tls.join("operator")).unwrap();
    cluster.refused(&["bench", "tpcb"], &["certificate of a client", "operator"]);
    std::fs::rename(tls.join("operator"), tls.join("client")).unwrap();
    cluster.refused(&["bench", "tpcb"], &["cannot read", "atoll cluster certificates"]);
    // Nor does a caller without certificates.
    std::fs::rename(tls.join("put-by"), tls.join("operator")).unwrap();
    cluster.write_hosts(&["a", "b"], 43, "");
    cluster.refused(&["bench", "tpcb"], &["--tls"]);
    cluster.write_hosts(&["a", "b"], 43, &format!("tls {}\n", tls.display()));
    cluster.down();
}

#[test]
fn what_does_not_fit_is_refused_with_its_cause() {
    let cluster = Cluster::new(44);
    cluster.run(&["cluster", "up"]);
    // Two agents on one directory.
    let data = cluster.path("a");
    let second = ["agent", "--cluster", "test", "--machine", "a", "--listen", "127.44.0.9:7400", "--data"];
    let output = cluster.sandbox.command(&second).arg(&data).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("in use by another agent"), "{}", stderr(&output));
    // A host under another name, and one of another cluster.
    cluster.write_hosts(&["b", "a"], 44, "");
    cluster.refused(&["bench", "tpcb"], &["calls itself a", "--machine b"]);
    cluster.write_hosts(&["a", "b"], 44, "cluster other\n");
    cluster.refused(&["bench", "tpcb"], &["belongs to cluster test", "cluster other"]);
    cluster.write_hosts(&["a", "a"], 44, "");
    cluster.refused(&["bench", "tpcb"], &["line 3", "line 2 too"]);
    cluster.write_hosts(&["a", "b"], 44, "");
    // A database that lasts.
    cluster.refused(&["bench", "tpcb", "--data", "bank"], &["--keep"]);
    cluster.refused(&["bench", "tpcb", "--data", "a/b", "--keep"], &["letters, digits"]);
    let kept = ["--durability", "async", "--keep", "--data", "bank"];
    assert_eq!(cluster.bench(&kept)["consistent"], true);
    assert_eq!(cluster.bench(&kept)["consistent"], true);
    cluster.refused(&[&["bench", "micro"], &kept[..]].concat(), &["holds tpcb", "needs micro"]);
    let description = cluster.path("b/bank/deployment.json");
    let text = std::fs::read_to_string(&description).unwrap();
    std::fs::write(&description, text.replace("\"islands\": 2", "\"islands\": 3")).unwrap();
    let two = ["--islands", "2", "--workers", "2", "--accounts", "1000"];
    cluster.refused(
        &[&["bench", "tpcb"], &kept[..], &two].concat(),
        &["hosts a and b disagree about database bank", "2 islands", "3 islands"],
    );
    std::fs::write(&description, text).unwrap();
    cluster.refused(&["cluster", "move", "0", "--to", "c", "--data", "bank"], &["host c", "a, b"]);
    cluster.refused(&["cluster", "move", "0", "--to", "a", "--data", "bank"], &["island 0 already"]);
    cluster.refused(&["cluster", "move", "7", "--to", "a", "--data", "bank"], &["island 7", "no host"]);
    // A host is emptied, and the database is whole elsewhere.
    cluster.run(&["cluster", "drain", "b", "--data", "bank"]);
    assert!(!cluster.path("b/bank/1").exists() && cluster.path("a/bank/1").exists());
    assert_eq!(cluster.bench(&kept)["consistent"], true);
    cluster.run(&["cluster", "move", "0", "--to", "b", "--data", "bank"]);
    assert_eq!(cluster.bench(&kept)["consistent"], true);
    cluster.down();
}
