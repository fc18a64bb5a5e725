//! The transactions of a trace, each with its own events, so that a simulator can run them in any
//! order and side by side.

use crate::chunk;
use crate::event::{Counts, Decoder, Encoder, Event};
use crate::file::{Block, Function, TraceError, TraceFile};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The number of its kind.
    pub kind: u32,
    /// The stream that it was in.
    pub thread: u32,
    /// The line of the stack at which it began.
    pub stack: u64,
    pub counts: Counts,
    bytes: Box<[u8]>,
}

/// Lines below and above the place on the stack at which a transaction began that belong to its
/// thread: a stack of 2 MB, and the thread's variables above it.
const BELOW: u64 = (2 << 20) / 64;
const ABOVE: u64 = (64 << 10) / 64;

impl Transaction {
    /// The first and the last line of its thread's stack and variables; none if it does not know
    /// its stack.
    pub fn private_lines(&self) -> (u64, u64) {
        match self.stack {
            0 => (1, 0),
            stack => (stack.saturating_sub(BELOW), stack + ABOVE),
        }
    }

    /// Its blocks, accesses and marks, without its own begin and end.
    #[inline]
    pub fn events(&self) -> Decoder<'_> {
        Decoder::new(&self.bytes)
    }

    /// A transaction of these events, for tests of simulators.
    pub fn of(kind: u32, events: impl IntoIterator<Item = Event>) -> Transaction {
        let mut encoder = Encoder::default();
        events.into_iter().for_each(|event| encoder.push(event));
        let counts = Counts::default();
        Transaction { kind, thread: 0, stack: 0, counts, bytes: encoder.bytes.into() }
    }
}

/// A trace in memory: transactions in the order in which each thread began them, one thread's i-th
/// before any thread's i+1-th.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub meta: Vec<(String, String)>,
    pub kinds: Vec<String>,
    pub functions: Vec<Function>,
    pub blocks: Vec<Block>,
    pub transactions: Vec<Transaction>,
}

/// A transaction that has begun.
struct Open {
    task: u32,
    kind: u32,
    stack: u64,
    events: Encoder,
}

impl Trace {
    /// # Errors
    /// [`TraceError`], with the path.
    pub fn read(path: &Path) -> Result<Trace, TraceError> {
        Trace::of(&path.display().to_string(), TraceFile::read(path)?)
    }

    /// # Errors
    /// [`TraceError::Damaged`]: a stream holds something else than events of this trace.
    pub fn of(path: &str, file: TraceFile) -> Result<Trace, TraceError> {
        let damaged = |thread: usize| TraceError::Damaged {
            path: path.to_owned(),
            what: format!("the stream of thread {thread} is not as expected"),
        };
        let mut by_thread = Vec::new();
        for (thread, split) in split_all(&file).into_iter().enumerate() {
            by_thread.push(split.ok_or_else(|| damaged(thread))?.into_iter());
        }
        let mut transactions = Vec::new();
        loop {
            let round = transactions.len();
            transactions.extend(by_thread.iter_mut().filter_map(Iterator::next));
            if transactions.len() == round {
                break;
            }
        }
        let TraceFile { meta, kinds, functions, blocks, .. } = file;
        Ok(Trace { meta, kinds, functions, blocks, transactions })
    }

    pub fn fact(&self, name: &str) -> Option<&str> {
        self.meta.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn kind_name(&self, transaction: &Transaction) -> &str {
        &self.kinds[transaction.kind as usize]
    }
}

/// The transactions of each stream; `None` for one that is not as expected. As many streams are
/// read at once as the machine has processors.
fn split_all(file: &TraceFile) -> Vec<Option<Vec<Transaction>>> {
    let made: Vec<OnceLock<Option<Vec<Transaction>>>> =
        file.streams.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || loop {
        let thread = next.fetch_add(1, Ordering::Relaxed);
        let Some(stream) = file.streams.get(thread) else { return };
        let split = || split(&chunk::unpack(stream)?, thread as u32, file);
        made[thread].get_or_init(split);
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(made.len());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    made.into_iter().map(|made| made.into_inner().flatten()).collect()
}

/// The transactions of one stream. Those that have not ended are left out.
fn split(events: &[u8], thread: u32, file: &TraceFile) -> Option<Vec<Transaction>> {
    let (mut open, mut done): (Vec<Open>, Vec<Transaction>) = (Vec::new(), Vec::new());
    let mut decoder = Decoder::new(events);
    let mut task = 0;
    for event in decoder.by_ref() {
        match event {
            Event::Task(next) => task = next,
            Event::Begin { kind, stack } => {
                file.kinds.get(kind as usize)?;
                open.retain(|o| o.task != task);
                open.push(Open { task, kind, stack, events: Encoder::default() });
            }
            Event::End(counts) => {
                let at = open.iter().position(|o| o.task == task)?;
                let Open { kind, stack, events, .. } = open.swap_remove(at);
                done.push(Transaction { kind, thread, stack, counts, bytes: events.bytes.into() });
            }
            Event::Block(block) if block as usize >= file.blocks.len() => return None,
            event => open.iter_mut().find(|o| o.task == task)?.events.push(event),
        }
    }
    decoder.is_done().then_some(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::pack;

    fn file(streams: Vec<Vec<Event>>) -> TraceFile {
        let block = |i: u64| Block { address: i * 64, bytes: 8, instructions: 2, function: 0 };
        let packed = |events: Vec<Event>| {
            let mut encoder = Encoder::default();
            events.into_iter().for_each(|event| encoder.push(event));
            pack(&encoder.bytes)
        };
        TraceFile {
            kinds: vec!["a".into(), "b".into()],
            functions: vec![Function { component: "other".into(), name: "f".into() }],
            blocks: (0..9).map(block).collect(),
            streams: streams.into_iter().map(packed).collect(),
            ..TraceFile::default()
        }
    }

    fn begin(kind: u32) -> Event {
        Event::Begin { kind, stack: 100 }
    }

    #[test]
    fn tasks_that_take_turns_are_told_apart() {
        let end = Event::End(Counts::default());
        let events = vec![
            Event::Task(1),
            begin(0),
            Event::Block(1),
            Event::Task(2),
            begin(1),
            Event::Block(7),
            Event::Load(5),
            Event::Task(1),
            Event::Block(2),
            end,
            Event::Task(2),
            Event::Block(8),
            end,
        ];
        let trace = Trace::of("t", file(vec![events, vec![begin(1), end]])).unwrap();
        let kinds: Vec<(u32, u32)> = trace.transactions.iter().map(|t| (t.kind, t.thread)).collect();
        assert_eq!(kinds, [(0, 0), (1, 1), (1, 0)]);
        let blocks = |i: usize| trace.transactions[i].events().collect::<Vec<_>>();
        assert_eq!(blocks(0), [Event::Block(1), Event::Block(2)]);
        assert_eq!(blocks(2), [Event::Block(7), Event::Load(5), Event::Block(8)]);
    }

    #[test]
    fn a_stream_of_something_else_is_refused() {
        let end = Event::End(Counts::default());
        for wrong in
            [vec![begin(5), end], vec![begin(0), Event::Block(9), end], vec![end], vec![Event::Block(0)]]
        {
            assert!(Trace::of("t", file(vec![wrong])).is_err());
        }
        assert_eq!(Trace::of("t", file(vec![vec![begin(0)]])).unwrap().transactions.len(), 0);
    }
}
