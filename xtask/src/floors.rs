//! The layers ("floors") of the crates ("rooms"), and the dependencies that are forbidden: checked
//! over the Cargo manifests.
//!
//! The same two tables are in `ARCHITECTURE.md`, and must be equal to these.

use crate::root;
use crate::workspace::Workspace;

/// Bottom to top, also within a floor: a room may depend only on rooms named before it.
pub const FLOORS: &[(&str, &[&str])] = &[
    (
        "ground",
        &[
            "base", "world", "topology", "probe", "latch", "traffic", "relay", "members", "trace", "tracer",
            "cachesim",
        ],
    ),
    ("language", &["txn", "sql", "compiler", "catalogs", "queries", "workload"]),
    ("storage", &["wal", "pages", "access", "locks", "store", "memstore"]),
    ("execution", &["partition", "exec"]),
    (
        "island",
        &[
            "channel",
            "rdma",
            "twophase",
            "wire",
            "instance",
            "engine-conventional",
            "engine-partitioned",
            "engine-serial",
            "engine-occ",
        ],
    ),
    (
        "archipelago",
        &[
            "client",
            "columnar",
            "copies",
            "trust",
            "server",
            "deploy",
            "cluster",
            "driver",
            "report",
            "deploysim",
            "advisor",
        ],
    ),
    ("doors", &["trials", "claims", "hostile", "atoll-embed", "atoll-python", "atoll", "peers", "xtask"]),
];

pub enum Rule {
    /// May depend on these rooms only, directly or not.
    Only(&'static [&'static str]),
    /// Must not depend on any of these rooms, directly or not.
    Never(&'static [&'static str]),
    /// Must not depend on these rooms directly; a room between may.
    NotItself(&'static [&'static str]),
}
use Rule::{Never, NotItself, Only};

/// The forbidden dependencies, checked on the transitive graph.
pub const ABSENCES: &[(&str, Rule)] = &[
    ("store", Never(&["topology", "channel", "wire", "twophase", "exec", "instance", "workload", "deploy"])),
    ("memstore", Only(&["base", "world", "probe", "latch", "txn"])),
    ("workload", Only(&["base", "txn", "sql"])),
    ("sql", Only(&["base", "txn"])),
    ("compiler", Only(&["base", "txn", "sql"])),
    ("catalogs", Only(&["base", "txn", "sql", "compiler"])),
    ("queries", Only(&["base", "txn", "sql", "compiler"])),
    ("partition", Only(&["base", "txn"])),
    ("twophase", Only(&["base"])),
    ("deploysim", Only(&["base", "topology", "txn", "sql", "workload", "twophase"])),
    ("relay", Only(&["base", "world"])),
    ("members", Only(&["world"])),
    ("trace", Only(&["base"])),
    ("tracer", Only(&["base", "trace"])),
    ("cachesim", Only(&["base", "trace"])),
    ("client", Never(&["wal", "pages", "access", "locks", "store", "exec", "instance"])),
    ("advisor", Never(&["store", "memstore", "exec", "instance", "channel", "wire", "deploy", "driver"])),
    ("columnar", Only(&["base", "txn", "sql"])),
    ("copies", Only(&[])),
    ("trust", Only(&["channel"])),
    ("rdma", Only(&["channel"])),
    ("cluster", Never(&["driver", "report", "claims", "deploysim", "advisor", "atoll"])),
    (
        "atoll-embed",
        Never(&["cluster", "trust", "driver", "report", "claims", "deploysim", "advisor", "atoll"]),
    ),
    ("driver", NotItself(&["wal", "pages", "access", "locks", "store", "exec"])),
];

/// Crates from outside that reach the operating system, and our crates that may name them: `world`
/// for files and clock, `topology` for pinning and memory binding, `channel` for sockets and shared
/// memory, `rdma` for its devices, `pages` for the address range of its pool, `deploy` for child
/// processes.
pub const SYSTEM_CRATES: &[&str] = &[
    "hwlocality",
    "io-uring",
    "libc",
    "memmap2",
    "nix",
    "perf-event-open-sys",
    "rdma-mummy-sys",
    "rustix",
    "sideway",
];
pub const SYSTEM_DOORS: &[&str] = &["world", "topology", "channel", "rdma", "pages", "deploy"];

/// Crates that link other engines or Python, and are built only on request.
const ON_DEMAND: &[&str] = &["peers", "atoll-python"];

pub fn check(workspace: &Workspace) -> Vec<String> {
    let mut complaints = listed(workspace);
    complaints.extend(downward(workspace));
    complaints.extend(ABSENCES.iter().flat_map(|(room, rule)| absent(workspace, room, rule)));
    complaints.extend(system(workspace));
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap_or_default();
    complaints.extend(drawn(&map));
    complaints
}

fn order() -> Vec<&'static str> {
    FLOORS.iter().flat_map(|(_, rooms)| rooms.iter().copied()).collect()
}

/// Every crate has a floor and is built and tested by default; every room named here exists.
fn listed(workspace: &Workspace) -> Vec<String> {
    let order = order();
    let homeless = workspace.crates.iter().filter(|c| !order.contains(&c.name.as_str())).map(|c| {
        format!(
            "crate '{}' is on no floor: add it to FLOORS in xtask/src/floors.rs and to ARCHITECTURE.md",
            c.name
        )
    });
    let imagined = order.iter().filter(|name| workspace.get(name).is_none());
    let imagined = imagined
        .map(|name| format!("room '{name}' is named in xtask/src/floors.rs, but there is no such crate"));
    let hidden = workspace.crates.iter().filter(|c| !c.is_default && !ON_DEMAND.contains(&c.name.as_str()));
    let hidden = hidden
        .map(|c| format!("crate '{}' is not among default-members in Cargo.toml: nothing tests it", c.name));
    homeless.chain(imagined).chain(hidden).collect()
}

fn downward(workspace: &Workspace) -> Vec<String> {
    let order = order();
    let rank = |name: &str| order.iter().position(|r| *r == name);
    let mut complaints = Vec::new();
    for room in &workspace.crates {
        for need in &room.needs {
            if let (Some(own), Some(other)) = (rank(&room.name), rank(need))
                && other >= own
            {
                complaints.push(format!(
                    "'{}' is built from '{need}', which is not below it: pass a value up instead of calling, or move the \
                     room in xtask/src/floors.rs and ARCHITECTURE.md",
                    room.name
                ));
            }
        }
    }
    complaints
}

fn absent(workspace: &Workspace, room: &str, rule: &Rule) -> Vec<String> {
    let reach = workspace.reach(room);
    let own = |other: &str| workspace.get(room).is_some_and(|c| c.needs.contains(other));
    let wrong = |other: &&&str| match rule {
        Only(rooms) => !rooms.contains(*other),
        Never(rooms) => rooms.contains(*other),
        NotItself(rooms) => rooms.contains(*other) && own(other),
    };
    let wrong = reach.iter().filter(wrong);
    wrong
        .map(|other| {
            format!("'{room}' must not know '{other}'; see \"What must never be\" in ARCHITECTURE.md")
        })
        .collect()
}

fn system(workspace: &Workspace) -> Vec<String> {
    let inside = workspace.crates.iter().filter(|c| !SYSTEM_DOORS.contains(&c.name.as_str()));
    let reach = inside.flat_map(|c| c.needs.iter().map(move |need| (&c.name, need)));
    let reach = reach.filter(|(_, need)| SYSTEM_CRATES.contains(&need.as_str()));
    reach
        .map(|(room, need)| {
            format!(
                "'{room}' uses '{need}': the operating system is reached through world, topology or channel"
            )
        })
        .collect()
}

/// `ARCHITECTURE.md` has one row for each room, `| floor | `room` | ...`, in the order of
/// [`FLOORS`].
fn drawn(map: &str) -> Vec<String> {
    let mut floor = String::new();
    let mut rows = Vec::new();
    let body = map.lines().skip_while(|l| !l.starts_with("| floor |")).skip(2);
    for row in body.take_while(|l| l.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        if !cells[0].is_empty() {
            floor = cells[0].to_owned();
        }
        let rooms = cells.get(1).unwrap_or(&"").split(',').map(|r| r.trim().trim_matches('`').to_owned());
        rows.extend(rooms.map(|room| (floor.clone(), room)));
    }
    let told: Vec<(String, String)> = FLOORS
        .iter()
        .flat_map(|(f, rooms)| rooms.iter().map(|r| ((*f).to_owned(), (*r).to_owned())))
        .collect();
    if rows == told {
        return Vec::new();
    }
    let odd = rows.iter().filter(|r| !told.contains(r)).chain(told.iter().filter(|r| !rows.contains(r)));
    let odd: Vec<String> = odd.map(|(floor, room)| format!("{floor}/{room}")).collect();
    let what = if odd.is_empty() { "the order".to_owned() } else { odd.join(", ") };
    vec![format!("the table of rooms in ARCHITECTURE.md and FLOORS in xtask/src/floors.rs differ: {what}")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Crate;

    fn room(name: &str, needs: &[&str]) -> Crate {
        Crate {
            name: name.into(),
            folder: name.into(),
            needs: needs.iter().map(|&n| n.into()).collect(),
            is_default: name != "cellar",
            runs_examples: None,
        }
    }

    fn house(rooms: Vec<Crate>) -> Workspace {
        Workspace { crates: rooms, files: Vec::new() }
    }

    #[test]
    fn the_house_stands_as_drawn() {
        let complaints = check(&Workspace::read().unwrap());
        assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    }

    #[test]
    fn an_absence_is_checked_through_other_rooms() {
        let bad =
            house(vec![room("store", &["access"]), room("access", &["channel"]), room("channel", &["base"])]);
        assert_eq!(absent(&bad, "store", &ABSENCES[0].1).len(), 1);
        let bad = house(vec![room("workload", &["txn"]), room("txn", &["probe"]), room("probe", &[])]);
        assert_eq!(absent(&bad, "workload", &Only(&["base", "txn"])).len(), 1);
        let between = [room("driver", &["deploy"]), room("deploy", &["store"]), room("store", &[])];
        assert!(absent(&house(between.into()), "driver", &NotItself(&["store"])).is_empty());
        let itself = [room("driver", &["store"]), room("store", &[])];
        assert_eq!(absent(&house(itself.into()), "driver", &NotItself(&["store"])).len(), 1);
    }

    #[test]
    fn arrows_up_and_rooms_without_a_floor_are_found() {
        assert_eq!(downward(&house(vec![room("wal", &["store"])])).len(), 1);
        assert!(downward(&house(vec![room("store", &["wal", "serde"])])).is_empty());
        assert!(
            listed(&house(vec![room("attic", &[])])).iter().any(|c| c.contains("'attic' is on no floor"))
        );
        assert!(listed(&house(vec![room("cellar", &[])])).iter().any(|c| c.contains("default-members")));
        assert_eq!(system(&house(vec![room("exec", &["libc"])])).len(), 1);
    }

    #[test]
    fn a_map_that_differs_is_found() {
        assert!(drawn("| floor | room |\n|---|---|\n| ground | `base` |\n")[0].contains("ground/world"));
    }
}
