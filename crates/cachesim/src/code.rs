//! The code of a trace as the simulators need it: for each block its lines, instructions and
//! component, with the lines of code numbered from 0.

use crate::hash::LineMap;
use trace::Trace;

/// The component of code that counts for its caller: memory copies, allocation, the standard
/// library.
pub const RUNTIME: &str = "runtime";

#[derive(Clone, Copy, Debug)]
pub struct BlockLines {
    pub address: u64,
    pub bytes: u16,
    pub instructions: u16,
    /// The line of its first byte, and the number of lines.
    pub first: u64,
    pub lines: u16,
    /// The number of its first line; the others follow.
    pub dense: u32,
    /// The number of its component; `None` for [`RUNTIME`].
    pub component: Option<u8>,
}

/// The facts about a block that a run on a chip needs: as few bytes as possible, since it asks at
/// each block.
#[derive(Clone, Copy, Debug)]
pub struct BlockRun {
    pub first: u64,
    pub lines: u16,
    pub instructions: u16,
}

#[derive(Clone, Debug)]
pub struct Code {
    pub blocks: Vec<BlockLines>,
    /// The same blocks.
    pub runs: Vec<BlockRun>,
    /// The names of components; the last one is for code before any component ran.
    pub components: Vec<String>,
    /// The number of different lines.
    pub lines: usize,
}

impl Code {
    pub fn of(trace: &Trace) -> Code {
        let mut components: Vec<String> =
            trace.functions.iter().map(|f| f.component.clone()).filter(|c| c != RUNTIME).collect();
        components.sort();
        components.dedup();
        components.retain(|c| c != "other");
        components.push("other".into());
        components.truncate(usize::from(u8::MAX));
        let component = |function: u32| {
            let name = &trace.functions.get(function as usize)?.component;
            components.iter().position(|known| known == name).map(|at| at as u8)
        };
        let (mut numbers, mut blocks) = (LineMap::<u32>::default(), Vec::new());
        // Blocks by address, so that neighbouring lines get neighbouring numbers.
        let mut lines: Vec<u64> = trace.blocks.iter().flat_map(|b| b.address >> 6..=last_line(b)).collect();
        lines.sort_unstable();
        lines.dedup();
        for (number, line) in lines.iter().enumerate() {
            numbers.insert(*line, number as u32);
        }
        for block in &trace.blocks {
            let first = block.address >> 6;
            blocks.push(BlockLines {
                address: block.address,
                bytes: block.bytes,
                instructions: block.instructions,
                first,
                lines: (last_line(block) - first + 1) as u16,
                dense: numbers[&first],
                component: component(block.function),
            });
        }
        let run = |b: &BlockLines| BlockRun { first: b.first, lines: b.lines, instructions: b.instructions };
        let runs = blocks.iter().map(run).collect();
        Code { blocks, runs, components, lines: lines.len() }
    }
}

fn last_line(block: &trace::file::Block) -> u64 {
    (block.address + u64::from(block.bytes.max(1)) - 1) >> 6
}
