//! `--machine`: all forms of the argument, valid and invalid.

use topology::{CpuId, Machine, MachineError, NodeId, Source, picture};

use crate::{described, synthetic};

const XML2: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0">
    <object type="Package" os_index="0">
      <info name="CPUModel" value="Quad Example 7"/>
      <object type="NUMANode" os_index="0" local_memory="1073741824"/>
      <object type="L3Cache" cache_size="33554432" depth="3">
        <object type="Core"><object type="PU" os_index="0"/><object type="PU" os_index="4"/></object>
        <object type="Core"><object type="PU" os_index="1"/><object type="PU" os_index="5"/></object>
      </object>
    </object>
    <object type="Package" os_index="1">
      <object type="NUMANode" os_index="2" local_memory="2147483648"/>
      <object type="L3Cache" cache_size="33554432" depth="3">
        <object type="Core"><object type="PU" os_index="2"/><object type="PU" os_index="6"/></object>
        <object type="Core"><object type="PU" os_index="3"/><object type="PU" os_index="7"/></object>
      </object>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
    <indexes length="4">0 2 </indexes>
    <u64values length="12">10 32 31 10 </u64values>
  </distances2>
</topology>
"#;

const XML1: &str = r#"<topology><object type="Machine">
  <object type="NUMANode" os_index="1" local_memory="4096"><object type="Socket" os_index="0">
    <object type="Cache" cache_size="1048576" depth="3"><object type="Core"><object type="PU" os_index="0"/></object></object>
  </object></object>
  <object type="NUMANode" os_index="3" local_memory="4096"><object type="Socket" os_index="1">
    <object type="Cache" cache_size="1048576" depth="3"><object type="Core"><object type="PU" os_index="1"/></object></object>
  </object></object>
</object></topology>"#;

fn file(name: &str, text: impl AsRef<[u8]>) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

#[test]
fn hwloc_xml_of_both_formats() {
    let (_dir, path) = file("quad.anything", XML2);
    let machine = Machine::parse(&path).unwrap();
    assert_eq!(machine.source, Source::Xml(path));
    assert_eq!(machine.model, "Quad Example 7");
    assert_eq!((machine.packages(), machine.l3_groups(), machine.cores(), machine.pus.len()), (2, 2, 4, 8));
    let pu = machine.pu(CpuId(6)).unwrap();
    assert_eq!((pu.core, pu.package, pu.node), (2, 1, Some(NodeId(2))));
    assert_eq!(machine.nodes[1].bytes, Some(2 << 30));
    assert_eq!(machine.node_distances, [[10, 32], [31, 10]]);
    assert_eq!(machine.l3[1].bytes, Some(32 << 20));

    let (_dir, path) = file("old.xml", XML1);
    let machine = Machine::parse(&path).unwrap();
    assert_eq!((machine.packages(), machine.cores(), machine.nodes.len()), (2, 2, 2));
    assert_eq!(machine.pu(CpuId(1)).unwrap().node, Some(NodeId(3)));
}

#[test]
fn synthetic_strings() {
    let quad = synthetic("package:4 core:6");
    assert_eq!((quad.packages(), quad.islands.len(), quad.cores(), quad.pus.len()), (4, 4, 24, 24));
    assert!(quad.nodes.is_empty());
    let rich = synthetic("pack:2 [numa(memory=4GiB)] l3:2(size=32MiB) core:4 pu:2");
    assert_eq!((rich.packages(), rich.islands.len(), rich.cores(), rich.pus.len()), (2, 4, 16, 32));
    assert_eq!((rich.l3[3].bytes, rich.nodes[1].bytes), (Some(32 << 20), Some(4 << 30)));
    assert_eq!(rich.pu(CpuId(16)).unwrap().node, Some(NodeId(1)));
    let nodes = synthetic("numa:2 core:2");
    assert_eq!(
        (nodes.packages(), nodes.islands.len()),
        (1, 2),
        "without L3 and package, a node is an island"
    );
}

#[test]
fn errors_are_one_line_and_name_value_expectation_and_advice() {
    let csv = file("broken.csv", ",,\n50,,\n60,oops,\n");
    let short = file("short.csv", ",\n");
    let xml = file("broken.xml", "<topology><object type=\"PU\" os_index=\"x\"/></topology>");
    let twice = file("twice.xml", XML1.replace("PU\" os_index=\"1\"", "PU\" os_index=\"0\""));
    let other = file("page.html", "<html></html>");
    let deep = file("deep.xml", "<a>".repeat(100_000));
    let binary = file("core", [0xff, 0xfe, 0x00, 0x80]);
    let cases = [
        ("nonsense", "not a machine"),
        ("", "not a machine"),
        ("no/such/file.csv", "no such file"),
        ("machine.xml", "no such file"),
        ("/", "is a directory"),
        ("package:0", "counts to zero"),
        ("package:2 core:x", "is not TYPE:COUNT"),
        ("package:-1", "is not TYPE:COUNT"),
        ("flux:2", "\"flux\" is not a type"),
        ("core:2 package:2", "cannot stand inside"),
        ("package:64 core:65", "more than 4096 CPUs"),
        ("package:99999999999 core:99999999999 pu:99999999999", "more than 4096 CPUs"),
        ("package:2 l3:2(size=big)", "is not a size"),
        ("package:2 l3:2(size=1.5MiB)", "is not a size"),
        ("package:2 l3:2(size=99999999999TiB)", "is not a size"),
        ("package:2 core:2(indexes=1,0)", "not understood"),
        ("package:2 [core] pu:2", "attaches something other"),
        (&csv.1, ".csv:3: column 2: \"oops\""),
        (&short.1, "fewer than two CPUs"),
        (&xml.1, "os_index \"x\""),
        (&twice.1, "CPU 0 twice"),
        (&other.1, "<html>"),
        (&deep.1, "nests deeper"),
        (&binary.1, "is not text"),
    ];
    for (argument, problem) in cases {
        let error = Machine::parse(argument).expect_err(argument);
        let text = error.to_string();
        assert!(text.contains(problem), "{argument:?}: {text}");
        assert!(text.contains("expected") && text.contains(argument) && !text.contains('\n'), "{text}");
        assert!(matches!(error, MachineError::Described { .. } | MachineError::Line { .. }));
    }
}

/// Truncated and altered files are read or refused; none panics and none hangs.
#[test]
fn mutated_files_never_panic() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let (_dir, path) = file("mutant", "");
    let csv = ",,,\n50.5,,,\n51,52,,\n90,91,92,\n";
    let (mut read, mut refused) = (0, 0);
    for round in 0..600 {
        let mut bytes = [XML2, XML1, csv][round % 3].as_bytes().to_vec();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            match next(4) {
                0 => bytes[at] = b"0123456789-x\"<>/,"[next(17)],
                1 => bytes.truncate(at.max(1)),
                2 => drop(bytes.drain(at..(at + 60).min(bytes.len()))),
                _ => bytes.extend_from_within(at..),
            }
            if bytes.is_empty() {
                bytes.push(b',');
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        match Machine::parse(&path) {
            Ok(machine) => {
                read += 1;
                assert!(!picture(&machine).is_empty());
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("expected"));
            }
        }
    }
    assert!(read > 20 && refused > 200, "read {read}, refused {refused}: the mutations no longer bite");
}

#[test]
fn json_holds_everything() {
    let (_dir, path) = file("three.csv", ",,\n20.5,,\n90,91.25,\n");
    for machine in [Machine::parse(&path).unwrap(), synthetic("package:2 [numa] l3:1 core:2")] {
        let json = serde_json::to_string(&machine).unwrap();
        let back: Machine = serde_json::from_str(&json).unwrap();
        assert_eq!(back, machine);
    }
    let json = serde_json::to_value(described("apple-m1-pro.csv")).unwrap();
    assert_eq!(json["islands"][0]["cpus"], serde_json::json!([0, 1]));
    assert_eq!(json["island_source"], "latency");
    let wrong = r#"{"cpus":[0,1],"ns":[]}"#;
    assert!(serde_json::from_str::<topology::LatencyMatrix>(wrong).is_err());
}

#[test]
fn the_picture_shows_sockets_islands_cores_and_latencies() {
    let small = picture(&described("amd-ryzen-7-2700x-eight-core.csv"));
    for part in [
        "1 socket, 2 islands, 8 cores, 16 CPUs",
        "island 1: 4 cores, CPU 8-15",
        "[8 9] [10 11]",
        "shared cache  2 groups",
    ] {
        assert!(small.contains(part), "{part} is missing in\n{small}");
    }
    let large = picture(&described("amd-epyc-7r13-48-core.csv"));
    assert!(
        large.contains("[0 96] [1 97]") && large.contains("socket 1") && large.contains("island-to-island")
    );
    let many = picture(&described("dual-amd-epyc-7742-64-core.csv"));
    assert!(many.contains("latency between islands: 1"), "{many}");
    let rich = picture(&synthetic("package:2 [numa(memory=4GiB)] l3:2(size=32MiB) core:2 pu:2"));
    assert!(rich.contains("L3 32 MiB, node 1") && rich.contains("node 0: 4 GiB"), "{rich}");
    for text in [small, large, many, rich] {
        assert!(text.lines().all(|line| line.chars().count() <= 240), "{text}");
    }
}
