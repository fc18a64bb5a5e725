//! The memory that this process may still take: the least of the machine's free memory and the room
//! in each of its control groups.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cgroup;

/// Memory that can be taken, and its bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryRoom {
    /// Bytes that can be taken now. Clean pages of the system's file cache count as free.
    pub free: u64,
    /// Total bytes: the machine's memory, or the limit of the control group.
    pub of: u64,
    /// The control group that sets the limit; `None` if it is the machine's memory.
    pub group: Option<PathBuf>,
}

/// The present room on this machine: the least of the machine and of every control group with a
/// limit that this process is in (v1 and v2, nested ones included). `None` if the system does not
/// report it.
pub fn memory_room() -> Option<MemoryRoom> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    room(&read("/proc/meminfo"), Path::new("/sys/fs/cgroup"), &read("/proc/self/cgroup"))
}

/// `meminfo` and `memberships` are the texts of `/proc/meminfo` and `/proc/self/cgroup`.
fn room(meminfo: &str, mount: &Path, memberships: &str) -> Option<MemoryRoom> {
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
    };
    let machine = || Some(MemoryRoom { free: field("MemAvailable")?, of: field("MemTotal")?, group: None });
    let groups = cgroup::memory_groups(mount, memberships).into_iter().map(|group| MemoryRoom {
        free: group.limit.saturating_sub(group.used),
        of: group.limit,
        group: Some(group.path),
    });
    machine().into_iter().chain(groups).min_by_key(|room| room.free)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       4096 kB\nMemFree: 10 kB\nMemAvailable:   2048 kB\n";

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn without_a_limit_the_machine_counts() {
        let dir = tree(&[("a/memory.max", "max\n"), ("a/memory.current", "7\n")]);
        let room = room(MEMINFO, dir.path(), "0::/a\n");
        assert_eq!(room, Some(MemoryRoom { free: 2 << 20, of: 4 << 20, group: None }));
        assert_eq!(super::room("", dir.path(), "0::/a\n"), None, "nobody tells");
    }

    #[test]
    fn the_tightest_group_counts_with_what_is_used_in_it() {
        // The inner group allows more than the outer one has left.
        let dir = tree(&[
            ("a/memory.max", "1048576\n"),
            ("a/memory.current", "900000\n"),
            ("a/memory.stat", "anon 1\ninactive_file 100000\nactive_file 200000\nfile 999999\n"),
            ("a/b/memory.max", "800000\n"),
            ("a/b/memory.current", "50000\n"),
        ]);
        let found = room(MEMINFO, dir.path(), "0::/a/b\n").unwrap();
        assert_eq!((found.free, found.of), (1_048_576 - 600_000, 1 << 20));
        assert_eq!(found.group, Some(dir.path().join("a")));
    }

    #[test]
    fn groups_of_the_first_version_too() {
        let dir = tree(&[
            ("memory/x/memory.limit_in_bytes", "1000000"),
            ("memory/x/memory.usage_in_bytes", "400000"),
            ("memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 100000\ntotal_active_file 0\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712"),
            ("memory/memory.usage_in_bytes", "400000"),
        ]);
        let found = room(MEMINFO, dir.path(), "4:memory:/x\n").unwrap();
        assert_eq!((found.free, found.group), (700_000, Some(dir.path().join("memory/x"))));
    }
}
