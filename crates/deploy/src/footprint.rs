//! The memory that a deployment will take, computed before it is taken.
//!
//! The page memory, or the rows' memory of `occ`, is given by the deployment and is by far the
//! largest part. The other parts are allocations of other crates: a log buffer for each instance,
//! two rings for each link, and a little for each worker.

use crate::engine::Durability;
use crate::{ChannelKind, Deployment};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The ring between appending and writing of one log (see `wal::LogOptions`), in bytes.
const LOG_BUFFER: u64 = 16 * MIB;
/// The same for a log in memory.
const LOG_IN_MEMORY: u64 = MIB;
/// Log blocks of one worker of `occ` that are being filled or written.
const LOG_OF_WORKER: u64 = 2 * MIB;
/// Both rings of a link through shared memory.
const RINGS: u64 = 2 * 256 * KIB;
/// The buffers of a link through a socket.
const SOCKET: u64 = 2 * 64 * KIB;
/// The buffers of a link by RDMA that are registered with the device, at both ends, and those of a
/// socket.
const QUEUES: u64 = 2 * 130 * 4 * KIB + SOCKET;
/// One instance without its data: program, threads, lock table.
const INSTANCE: u64 = 16 * MIB;
/// One worker: stack, transactions under way, histograms.
const WORKER: u64 = 3 * MIB;

/// Bytes of memory by purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Page memory of all instances, or their rows' memory with `occ`.
    pub pages: u64,
    /// Log buffers.
    pub logs: u64,
    /// Links between instances.
    pub links: u64,
    /// Everything else of instances and workers.
    pub rest: u64,
}

impl Footprint {
    /// The sum of all parts, saturating.
    pub fn total(&self) -> u64 {
        self.pages.saturating_add(self.logs).saturating_add(self.links).saturating_add(self.rest)
    }
}

impl Deployment {
    /// An upper bound for all its instances together, except for allocations that the workload
    /// causes.
    pub fn footprint(&self) -> Footprint {
        let (islands, workers) = (u64::from(self.islands), self.workers as u64);
        // Each worker of each instance keeps a link to each other instance; an instance holds one
        // of the two sides.
        let links = workers.saturating_mul(islands.saturating_sub(1));
        let link = match self.channel {
            ChannelKind::Shm | ChannelKind::Ring => RINGS,
            ChannelKind::Uds | ChannelKind::Tcp => SOCKET,
            ChannelKind::Rdma => QUEUES,
        };
        let logs = match (self.design.is_in_memory(), self.durability) {
            (true, Durability::Memory) => 0,
            (true, _) => workers * LOG_OF_WORKER,
            (false, Durability::Memory) => islands * LOG_IN_MEMORY,
            (false, _) => islands * LOG_BUFFER,
        };
        Footprint {
            pages: self.page_memory(),
            logs,
            links: links.saturating_mul(link),
            rest: islands * INSTANCE + workers * WORKER,
        }
    }
}
