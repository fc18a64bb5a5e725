//! Limits of the control group on CPU time and memory, from cgroup v2, v1, or both mounted side by
//! side.
//!
//! A limit on an ancestor holds too. So each chain is walked up to the mount point, and the least
//! value counts. Inside a container the path in `/proc/self/cgroup` may not exist under the mount
//! (it names the host's tree). Then the walk starts at the mount point itself, which is this
//! container's group.

use std::fs;
use std::path::{Path, PathBuf};

use crate::machine::Limits;

/// v1 writes "no limit" as the largest multiple of a page below 2^63. A value of this size or more
/// means none.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// The limits on this process.
pub(crate) fn limits() -> Limits {
    let memberships = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limits_under(Path::new("/sys/fs/cgroup"), &memberships)
}

/// `memberships` is the text of `/proc/self/cgroup`: lines of `id:controllers:path`, controllers
/// empty for v2.
fn limits_under(mount: &Path, memberships: &str) -> Limits {
    let mut limits = Limits::default();
    for line in memberships.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        for (root, read) in roots(mount, controllers) {
            for group in chain(&root, path) {
                tighten(&mut limits, read(&group));
            }
        }
    }
    limits
}

/// A control group that limits memory, in bytes.
pub(crate) struct MemoryGroup {
    pub(crate) path: PathBuf,
    pub(crate) limit: u64,
    /// Bytes used in the group, without pages of files, which the kernel can take back by itself.
    pub(crate) used: u64,
}

/// All groups with a memory limit that apply to a process with these `memberships`: its own and
/// their ancestors.
pub(crate) fn memory_groups(mount: &Path, memberships: &str) -> Vec<MemoryGroup> {
    let mut groups = Vec::new();
    for line in memberships.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        for (root, _) in roots(mount, controllers) {
            groups.extend(chain(&root, path).into_iter().filter_map(memory_group));
        }
    }
    groups
}

fn memory_group(path: PathBuf) -> Option<MemoryGroup> {
    let limit = bytes(&path, "memory.max").or_else(|| bytes(&path, "memory.limit_in_bytes"))?;
    let all = bytes(&path, "memory.current").or_else(|| bytes(&path, "memory.usage_in_bytes"));
    let stat = read(&path, "memory.stat").unwrap_or_default();
    let field = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|text| text.trim().parse::<u64>().ok())
    };
    // v1 counts a group alone, and with its children under `total_`; v2 always counts with the
    // children.
    let files = |kind: &str| field(&format!("total_{kind}")).or_else(|| field(kind)).unwrap_or(0);
    let cached = files("inactive_file") + files("active_file");
    Some(MemoryGroup { path, limit, used: all.unwrap_or(0).saturating_sub(cached) })
}

type Read = fn(&Path) -> Limits;

fn roots(mount: &Path, controllers: &str) -> Vec<(PathBuf, Read)> {
    if controllers.is_empty() {
        return vec![(mount.to_path_buf(), v2 as Read), (mount.join("unified"), v2)];
    }
    let mut roots = Vec::new();
    for controller in controllers.split(',') {
        let read: Read = match controller {
            "cpu" => v1_cpu,
            "memory" => v1_memory,
            _ => continue,
        };
        roots.push((mount.join(controllers), read));
        roots.push((mount.join(controller), read));
    }
    roots
}

/// The group and its ancestors down to the mount point.
fn chain(root: &Path, path: &str) -> Vec<PathBuf> {
    let relative = Path::new(path.trim_start_matches('/'));
    let groups = relative.ancestors().map(|ancestor| root.join(ancestor));
    groups.filter(|group| group.is_dir()).collect()
}

fn tighten(limits: &mut Limits, other: Limits) {
    limits.cpus = limits.cpus.into_iter().chain(other.cpus).reduce(f64::min);
    limits.memory_bytes = limits.memory_bytes.into_iter().chain(other.memory_bytes).min();
}

fn v2(group: &Path) -> Limits {
    let cpu_max = read(group, "cpu.max").unwrap_or_default();
    let mut words = cpu_max.split_whitespace().map(|word| word.parse::<f64>().ok());
    let (quota, period) = (words.next().flatten(), words.next().flatten());
    Limits { cpus: share(quota, period), memory_bytes: bytes(group, "memory.max") }
}

fn v1_cpu(group: &Path) -> Limits {
    let number = |name| read(group, name).and_then(|text| text.trim().parse::<f64>().ok());
    Limits { cpus: share(number("cpu.cfs_quota_us"), number("cpu.cfs_period_us")), memory_bytes: None }
}

fn v1_memory(group: &Path) -> Limits {
    Limits { cpus: None, memory_bytes: bytes(group, "memory.limit_in_bytes") }
}

fn share(quota: Option<f64>, period: Option<f64>) -> Option<f64> {
    let cpus = quota? / period?;
    (cpus.is_finite() && cpus > 0.0).then_some(cpus)
}

fn bytes(group: &Path, name: &str) -> Option<u64> {
    let bytes = read(group, name)?.trim().parse().ok()?;
    (bytes < UNLIMITED_BYTES).then_some(bytes)
}

fn read(group: &Path, name: &str) -> Option<String> {
    fs::read_to_string(group.join(name)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn v2_takes_the_tightest_ancestor() {
        let dir = tree(&[
            ("a/cpu.max", "150000 100000\n"),
            ("a/memory.max", "max\n"),
            ("a/b/cpu.max", "max 100000\n"),
            ("a/b/memory.max", "1073741824\n"),
        ]);
        let limits = limits_under(dir.path(), "0::/a/b\n");
        assert_eq!(limits, Limits { cpus: Some(1.5), memory_bytes: Some(1 << 30) });
    }

    #[test]
    fn v1_controllers_in_own_and_in_joint_folders() {
        let dir = tree(&[
            ("cpu,cpuacct/x/cpu.cfs_quota_us", "200000"),
            ("cpu,cpuacct/x/cpu.cfs_period_us", "50000"),
            ("memory/x/memory.limit_in_bytes", "9223372036854771712"),
            ("memory/memory.limit_in_bytes", "4096"),
        ]);
        let limits = limits_under(dir.path(), "4:memory:/x\n3:cpu,cpuacct:/x\n");
        assert_eq!(limits, Limits { cpus: Some(4.0), memory_bytes: Some(4096) });
    }

    #[test]
    fn a_path_of_the_host_falls_back_to_the_mount_and_no_quota_is_no_limit() {
        let dir = tree(&[("memory.max", "8192"), ("cpu.max", "max 100000")]);
        let limits = limits_under(dir.path(), "0::/docker/not-visible-here\ngarbage\n");
        assert_eq!(limits, Limits { cpus: None, memory_bytes: Some(8192) });
        let v1 = tree(&[("cpu/cpu.cfs_quota_us", "-1"), ("cpu/cpu.cfs_period_us", "100000")]);
        assert_eq!(limits_under(v1.path(), "1:cpu:/\n"), Limits::default());
    }
}
