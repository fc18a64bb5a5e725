//! The described machines: every file of `machines/`, and files that say too little.

use crate::machines;
use deploysim::machine::file::MachineFile;
use deploysim::{Deployment, MachineModel, Placement};

#[test]
fn every_machine_file_gives_a_model() {
    let mut described = 0;
    for entry in std::fs::read_dir(machines("")).unwrap() {
        let path = entry.unwrap().path();
        let is_machine = path.extension().is_some_and(|e| e == "csv" || e == "toml");
        if is_machine {
            let machine = MachineModel::parse(&path.to_string_lossy()).unwrap_or_else(|e| panic!("{e}"));
            let near: Vec<usize> = (0..machine.cores().min(4)).collect();
            assert!(machine.cores() >= 2 && machine.mean_ns(&near) > 0.0, "{}", path.display());
            described += 1;
        }
    }
    assert!(described > 30);
}

/// The machines of the papers: cores, packages, nearest and farthest one-way ns.
#[test]
fn the_papers_machines_are_as_published() {
    for (file, cores, packages, near, far) in [
        ("dual-socket-e5-2640-v2.toml", 16, 2, 39.0, 118.0),
        ("quad-socket-e7530.toml", 24, 4, 59.0, 155.0),
        ("octo-socket-e7-l8867.toml", 80, 8, 51.0, 188.0),
        ("cluster-of-8-x5660.toml", 96, 16, 37.0, 20_000.0),
        ("quad-socket-opteron-8356.toml", 16, 4, 34.0, 105.0),
    ] {
        let machine = MachineModel::parse(&machines(file)).unwrap();
        assert_eq!(machine.cores(), cores, "{file}");
        let sockets =
            machine.levels().iter().find(|l| l.level == deploysim::machine::LevelName::Socket).unwrap();
        assert_eq!(sockets.groups.len(), packages, "{file}");
        let all = || (0..cores).flat_map(|i| (0..i).map(move |j| (i, j)));
        let least = all().map(|(i, j)| machine.latency_ns(i, j)).fold(f64::INFINITY, f64::min);
        let most = all().map(|(i, j)| machine.latency_ns(i, j)).fold(0.0, f64::max);
        assert!((least - near).abs() < 0.5 && (most - far).abs() < 0.5, "{file}: {least} to {most}");
        assert!(!machine.defaulted().is_empty(), "{file}: some terms are defaults");
    }
    // Over the octo-socket machine the mean distance of all cores is 152 ns, with one term for
    // Table 1 of the paper (PVLDB 2012).
    let octo = MachineModel::parse(&machines("octo-socket-e7-l8867.toml")).unwrap();
    let all: Vec<usize> = (0..80).collect();
    assert!((octo.mean_ns(&all) - 152.0).abs() < 3.0, "{}", octo.mean_ns(&all));
}

/// All contexts of an UltraSPARC T2 are equally far, and eight share a core.
#[test]
fn a_chip_of_many_contexts_has_cores_and_no_islands() {
    let sun = MachineModel::parse(&machines("sun-t5220.toml")).unwrap();
    let all: Vec<usize> = (0..64).collect();
    assert_eq!((sun.cores(), sun.mean_ns(&all)), (64, 47.0));
    assert_eq!(sun.levels().len(), 1);
    assert_eq!(sun.levels()[0].groups.len(), 8);
    let parse = |pipelines: &str| {
        let text = std::fs::read_to_string(machines("sun-t5220.toml")).unwrap();
        MachineFile::parse("x.toml", &text.replace("each = 2, busy = 0.16", pipelines))
            .and_then(|f| f.model())
    };
    assert!(parse("each = 0, busy = 0.2").unwrap_err().to_string().contains("pipelines.each"));
    assert!(parse("each = 2, busy = 1.2").unwrap_err().to_string().contains("at most 1"));
    assert!(parse("each = 2").unwrap_err().to_string().contains("busy"));
}

#[test]
fn files_that_say_too_little_or_contradict_are_refused() {
    let said =
        |text: &str| MachineFile::parse("x.toml", text).and_then(|f| f.model()).unwrap_err().to_string();
    let head = "name = \"x\"\nsource = \"a test\"\n";
    let latency = |levels: &str| format!("{head}topology = \"package:2 core:2\"\n[latency_ns]\n{levels}");
    assert!(
        said(&format!("{head}topology = \"package:2 core:2\"")).contains("has no core-to-core latencies")
    );
    assert!(
        said(&latency("cache = 200\nhops = [100]"))
            .contains("contradictory levels: cache 200 ns is above hops[0] 100 ns")
    );
    assert!(said(&latency("cache = 50")).contains("has no `hops`"));
    assert!(said(&latency("cache = 50\nhops = [0]")).contains("contradictory"));
    assert!(said(&latency("cache = -50\nhops = [100]")).contains("nanoseconds above 0"));
    assert!(said(&latency("cach = 50")).contains("unknown field"));
    assert!(
        said(&format!("machines = 2\n{}", latency("cache = 50\nhops = [100]"))).contains("need `network`")
    );
    let synthetic = MachineModel::parse("package:4 core:6").unwrap_err().to_string();
    assert!(synthetic.contains("has no core-to-core latencies"), "{synthetic}");
}

#[test]
fn islands_lie_in_packages_and_spread_instances_do_not() {
    let machine = MachineModel::parse(&machines("quad-socket-e7530.toml")).unwrap();
    let packages = |cores: &[usize]| {
        let mut packages: Vec<usize> = cores.iter().map(|&core| machine.package(core)).collect();
        packages.sort_unstable();
        packages.dedup();
        packages.len()
    };
    let island = Deployment::new(&machine, "conventional", 4, 24, Placement::Island).unwrap();
    assert!(island.instances.iter().all(|cores| packages(cores) == 1));
    let spread = Deployment::new(&machine, "conventional", 4, 24, Placement::Spread).unwrap();
    assert!(spread.instances.iter().all(|cores| packages(cores) == 4));
    let mut all: Vec<usize> = spread.instances.concat();
    all.sort_unstable();
    assert_eq!(all, (0..24).collect::<Vec<_>>());
}
