//! Footprints and their overlap (thesis, section 6.6): the lines that transactions, operations and
//! their parts touch, and which of them all instances touch.

use crate::code::Code;
use crate::course::Course;
use crate::hash::LineMap;
use std::collections::BTreeMap;
use trace::code::{DELETE, END, LOCK, LOOKUP, UPDATE, is_operation};
use trace::{Event, Trace, Transaction};

/// The instances of one thing, such as all new-order transactions.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub instances: u32,
    /// For each line: the instance that touched it last, the number of those that did, and all
    /// touches.
    touched: Vec<(u32, u32, u64)>,
    /// The sum over instances of the lines touched.
    total: u64,
}

impl Group {
    #[inline]
    fn touch(&mut self, line: u32) {
        let line = line as usize;
        if line >= self.touched.len() {
            self.touched.resize(line + 1, (0, 0, 0));
        }
        let (last, count, touches) = &mut self.touched[line];
        *touches += 1;
        if *last != self.instances {
            (*last, *count) = (self.instances, *count + 1);
            self.total += 1;
        }
    }

    /// The lines of all instances together.
    pub fn union(&self) -> usize {
        self.touched.iter().filter(|(_, count, _)| *count > 0).count()
    }

    /// The mean of lines of an instance.
    pub fn mean(&self) -> f64 {
        self.total as f64 / f64::from(self.instances.max(1))
    }

    /// The share of the union that at least `share` of the instances touch.
    pub fn overlap(&self, share: f64) -> f64 {
        let needed = share * f64::from(self.instances);
        let common =
            self.touched.iter().filter(|(_, count, _)| *count > 0 && f64::from(*count) >= needed).count();
        common as f64 / self.union().max(1) as f64
    }
}

impl Group {
    /// How often an instance touches a line, the mean over the lines that a share of the instances
    /// from `least` to below `most` touch; and the number of these lines.
    pub fn reuse(&self, least: f64, most: f64) -> (f64, usize) {
        let share = |count: u32| f64::from(count) / f64::from(self.instances.max(1));
        let within = |(_, count, _): &&(u32, u32, u64)| *count > 0 && (least..most).contains(&share(*count));
        let lines: Vec<f64> = self
            .touched
            .iter()
            .filter(within)
            .map(|(_, count, all)| *all as f64 / f64::from(*count))
            .collect();
        (lines.iter().sum::<f64>() / lines.len().max(1) as f64, lines.len())
    }
}

/// The lines of data that at least 99 % of the transactions touch, by what they belong to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Common {
    /// The component of most accesses to them; `stack` for a thread's own stack.
    pub owner: String,
    pub lines: u64,
    pub accesses: u64,
    pub loads: u64,
}

/// The key of a group: a kind of transaction, or "" for all; the marks of an operation and of parts
/// inside it, from outside inwards, none for whole transactions.
pub type GroupKey = (String, Vec<u16>);

/// The footprints of a trace.
#[derive(Clone, Debug, Default)]
pub struct Footprints {
    pub code: BTreeMap<GroupKey, Group>,
    /// Of whole transactions only.
    pub data: BTreeMap<GroupKey, Group>,
    pub common: Vec<Common>,
}

/// A part of a transaction that has not ended, and its groups.
struct Frame {
    mark: u16,
    groups: Vec<usize>,
    /// Its code is not that of the operation around it ([`is_probe_in`]).
    apart: bool,
}

/// Whether a part is the index probe of an operation that finds and locks its row itself. In the
/// engine of the thesis a probe comes before an update or a deletion.
pub fn is_probe_in(operation: u16, part: u16) -> bool {
    matches!(operation, UPDATE | DELETE) && matches!(part, LOOKUP | LOCK)
}

/// The most marks in a key.
const DEEPEST: usize = 3;

/// Finds the footprints of the transactions behind the first `warm` ones, until `course` is
/// stopped.
pub fn footprints(trace: &Trace, code: &Code, warm: usize, course: &Course) -> Footprints {
    let mut finder = Finder { code, groups: Vec::new(), numbers: BTreeMap::new(), lines: LineMap::default() };
    let mut data: BTreeMap<GroupKey, Group> = BTreeMap::new();
    let measured = trace.transactions.iter().skip(warm);
    let mut seen = Seen { parts: code.components.len() + 1, ..Seen::default() };
    let mut component = code.components.len() - 1;
    for transaction in measured {
        let kind = trace.kind_name(transaction).to_owned();
        let mut of_data = [&(String::new(), Vec::new()), &(kind.clone(), Vec::new())]
            .map(|key| (key.clone(), data.remove(key).unwrap_or_default()));
        of_data.iter_mut().for_each(|(_, group)| group.instances += 1);
        let mut frames = vec![finder.frame(&[], 0, &kind)];
        for event in transaction.events() {
            match event {
                Event::Block(block) => {
                    finder.block(block, &frames);
                    component = code.blocks[block as usize].component.map_or(component, usize::from);
                }
                Event::Load(line) | Event::Store(line) => {
                    let next = finder.lines.len() as u32;
                    let number = *finder.lines.entry(line).or_insert(next);
                    let owner = if on_stack(transaction, line) { code.components.len() } else { component };
                    seen.access(number, owner, matches!(event, Event::Load(_)));
                    of_data.iter_mut().for_each(|(_, group)| group.touch(number));
                }
                Event::Mark(mark) if mark & END == 0 => {
                    let frame = finder.frame(&frames, mark, &kind);
                    frames.push(frame);
                }
                Event::Mark(mark) => {
                    if let Some(at) = frames.iter().rposition(|frame| frame.mark == mark & !END) {
                        frames.truncate(at.max(1));
                    }
                }
                _ => {}
            }
        }
        data.extend(of_data);
        course.one_done();
        if course.is_stopped() {
            break;
        }
    }
    let common = common(data.get(&(String::new(), Vec::new())), &seen, code);
    let keys = finder.numbers.into_iter();
    let code = keys.map(|(key, at)| (key, std::mem::take(&mut finder.groups[at]))).collect();
    Footprints { code, data, common }
}

/// Accesses to lines of data, by the component that made them.
#[derive(Default)]
struct Seen {
    /// Components, and the stack.
    parts: usize,
    /// For each line, by component: accesses and loads.
    counts: Vec<(u32, u32)>,
}

impl Seen {
    fn access(&mut self, line: u32, part: usize, is_load: bool) {
        let start = line as usize * self.parts;
        if start >= self.counts.len() {
            self.counts.resize(start + self.parts, (0, 0));
        }
        let (all, loads) = &mut self.counts[start + part];
        (*all, *loads) = (*all + 1, *loads + u32::from(is_load));
    }
}

/// Whether a line belongs to the stack of the transaction's thread, or to its variables above it.
fn on_stack(transaction: &Transaction, line: u64) -> bool {
    let (least, most) = transaction.private_lines();
    (least..=most).contains(&line)
}

fn common(mix: Option<&Group>, seen: &Seen, code: &Code) -> Vec<Common> {
    let Some(mix) = mix else { return Vec::new() };
    let needed = f64::from(mix.instances) * 0.99;
    let names = code.components.iter().map(String::as_str).chain(["stack"]);
    let mut all: Vec<Common> =
        names.map(|owner| Common { owner: owner.into(), lines: 0, accesses: 0, loads: 0 }).collect();
    for ((_, count, _), parts) in mix.touched.iter().zip(seen.counts.chunks_exact(seen.parts)) {
        if f64::from(*count) < needed {
            continue;
        }
        let owner = (0..parts.len()).max_by_key(|&part| parts[part].0).unwrap_or(0);
        let common = &mut all[owner];
        common.lines += 1;
        common.accesses += parts.iter().map(|(n, _)| u64::from(*n)).sum::<u64>();
        common.loads += parts.iter().map(|(_, n)| u64::from(*n)).sum::<u64>();
    }
    all.retain(|common| common.lines > 0);
    all
}

struct Finder<'t> {
    code: &'t Code,
    groups: Vec<Group>,
    numbers: BTreeMap<GroupKey, usize>,
    lines: LineMap<u32>,
}

impl Finder<'_> {
    fn group(&mut self, key: GroupKey) -> usize {
        let groups = &mut self.groups;
        let number = *self.numbers.entry(key).or_insert_with(|| {
            groups.push(Group::default());
            groups.len() - 1
        });
        self.groups[number].instances += 1;
        number
    }

    /// The groups of a part that begins with `mark` inside `frames`: 0 for the transaction.
    fn frame(&mut self, frames: &[Frame], mark: u16, kind: &str) -> Frame {
        let mut path: Vec<u16> = frames.iter().skip(1).map(|frame| frame.mark).collect();
        if mark != 0 {
            path.push(mark);
        }
        // A part belongs to the innermost operation around it.
        let start = path.iter().rposition(|mark| is_operation(*mark)).unwrap_or(0);
        let path = path[start..].to_vec();
        let apart = path.len() > 1 && is_probe_in(path[0], mark);
        if path.len() > DEEPEST || path.windows(2).any(|two| two[0] == two[1]) {
            return Frame { mark, groups: Vec::new(), apart };
        }
        let mut groups = vec![self.group((String::new(), path.clone())), self.group((kind.to_owned(), path))];
        if mark == LOOKUP {
            let alone = vec![LOOKUP];
            groups.extend([self.group((String::new(), alone.clone())), self.group((kind.to_owned(), alone))]);
        }
        Frame { mark, groups, apart }
    }

    #[inline]
    fn block(&mut self, block: u32, frames: &[Frame]) {
        let block = self.code.blocks[block as usize];
        let inner = frames.iter().rposition(|frame| frame.apart).unwrap_or(1).min(frames.len());
        for line in block.dense..block.dense + u32::from(block.lines) {
            for &group in frames[..1].iter().chain(&frames[inner..]).flat_map(|frame| &frame.groups) {
                self.groups[group].touch(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::code::CHANGE;
    use trace::file::Block;

    /// The code by which an update finds and locks its row is the transaction's, not the update's.
    #[test]
    fn the_probe_of_an_update_is_apart() {
        let block = |i: u64| Block { address: i * 64, bytes: 64, instructions: 16, function: 0 };
        let part = |mark: u16, inside: Vec<Event>| {
            [vec![Event::Mark(mark)], inside, vec![Event::Mark(mark | END)]].concat()
        };
        let inside = [
            part(LOCK, vec![Event::Block(1)]),
            part(LOOKUP, vec![Event::Block(2), Event::Block(3)]),
            part(CHANGE, vec![Event::Block(4)]),
            vec![Event::Block(5)],
        ];
        let one = Transaction::of(0, part(UPDATE, inside.concat()));
        let trace = Trace {
            kinds: vec!["a".into()],
            blocks: (0..6).map(block).collect(),
            transactions: vec![one],
            ..Trace::default()
        };
        let prints = footprints(&trace, &Code::of(&trace), 0, &Course::default());
        let lines = |path: &[u16]| prints.code[&(String::new(), path.to_vec())].union();
        assert_eq!([&[][..], &[UPDATE], &[LOOKUP], &[UPDATE, CHANGE]].map(lines), [5, 2, 2, 1]);
    }
}
