//! A machine in one line: hwloc's synthetic form. Outermost level first, each `TYPE:COUNT` per
//! object of the level before, such as `package:2 [numa(memory=64GiB)] l3:2(size=32MiB) core:4
//! pu:2`.
//!
//! Supported types: package (pack, socket), numa (node, numanode), l3, core, pu. The types die,
//! group, l1, l2, l4, l5 and machine multiply and are not kept. `[numa]` attaches one node to each
//! object of the level before it. Without `pu`, a core has one CPU. CPUs are numbered in order.
//! Atoll parses this itself, because hwloc ends the process on some inputs.

use crate::cpu::{CpuId, NodeId};
use crate::machine::{Machine, NumaNode, Source};
use crate::tables::{MOST_CPUS, Numa, RawPu, assemble};

/// The levels that are kept, in the only order in which they may nest; `numa` may stand anywhere
/// outside `core`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Package,
    L3,
    Core,
    Pu,
    Numa,
    /// Multiplies and is not kept.
    Other,
}

struct Level {
    kind: Kind,
    count: usize,
    bytes: Option<u64>,
}

/// Parses `text`. The error text states the problem.
pub(crate) fn from_synthetic(text: &str) -> Result<Machine, String> {
    let levels = parse(text)?;
    let mut raw = vec![Coordinates::default()];
    let mut numa = Numa::default();
    for level in &levels {
        if raw.len().saturating_mul(level.count) > MOST_CPUS {
            return Err(format!("describes more than {MOST_CPUS} CPUs"));
        }
        raw = split(&raw, level, &mut numa);
    }
    let pus = raw.iter().enumerate().map(|(at, place)| RawPu {
        cpu: CpuId(at as u32),
        core: place.core.unwrap_or(at as u64),
        l3: place.l3,
        package: place.package,
        node: place.node,
    });
    assemble(Source::Synthetic(text.to_owned()), text.to_owned(), pus.collect(), numa)
}

#[derive(Clone, Copy, Default)]
struct Coordinates {
    package: Option<u64>,
    node: Option<NodeId>,
    l3: Option<(u64, Option<u64>)>,
    core: Option<u64>,
}

/// Each place becomes `count` places, numbered through over the machine.
fn split(places: &[Coordinates], level: &Level, numa: &mut Numa) -> Vec<Coordinates> {
    let mut parts = Vec::with_capacity(places.len() * level.count);
    for place in places {
        for _ in 0..level.count {
            let mut part = *place;
            let number = parts.len() as u64;
            match level.kind {
                Kind::Package => part.package = Some(number),
                Kind::L3 => part.l3 = Some((number, level.bytes)),
                Kind::Core => part.core = Some(number),
                Kind::Numa => {
                    let node = NodeId(number as u32);
                    numa.nodes.push(NumaNode { node, bytes: level.bytes });
                    part.node = Some(node);
                }
                Kind::Pu | Kind::Other => {}
            }
            parts.push(part);
        }
    }
    parts
}

fn parse(text: &str) -> Result<Vec<Level>, String> {
    let mut levels: Vec<Level> = Vec::new();
    for word in text.split_whitespace() {
        let level = match word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(memory) => attached(word, memory)?,
            None => parse_level(word)?,
        };
        fits(&levels, &level, word)?;
        levels.push(level);
    }
    Ok(levels)
}

fn attached(word: &str, memory: &str) -> Result<Level, String> {
    let (name, attributes) = split_attributes(memory)?;
    match kind_of(name) {
        Some(Kind::Numa) => Ok(Level { kind: Kind::Numa, count: 1, bytes: bytes(attributes)? }),
        _ => Err(format!("{word:?} attaches something other than [numa]")),
    }
}

/// `TYPE:COUNT`, with attributes in parentheses after either.
fn parse_level(word: &str) -> Result<Level, String> {
    let complaint = || format!("{word:?} is not TYPE:COUNT");
    let (name, count) = word.split_once(':').ok_or_else(complaint)?;
    let (name, first) = split_attributes(name)?;
    let (count, second) = split_attributes(count)?;
    let kind = kind_of(name).ok_or_else(|| format!("{name:?} is not a type of level"))?;
    let count: usize = count.parse().map_err(|_| complaint())?;
    if count == 0 {
        return Err(format!("{word:?} counts to zero"));
    }
    Ok(Level { kind, count, bytes: bytes(first)?.or(bytes(second)?) })
}

fn kind_of(name: &str) -> Option<Kind> {
    let kind = match name.to_ascii_lowercase().as_str() {
        "package" | "pack" | "socket" => Kind::Package,
        "numa" | "numanode" | "node" => Kind::Numa,
        "l3" | "l3cache" | "l3u" => Kind::L3,
        "core" => Kind::Core,
        "pu" => Kind::Pu,
        "machine" | "die" | "group" | "l5" | "l4" | "l2" | "l1" | "l1d" | "l1i" | "l2cache" | "l1cache"
        | "l1dcache" | "l1icache" | "l4cache" => Kind::Other,
        _ => return None,
    };
    Some(kind)
}

/// Checks that kept levels nest in their order and come once, and that no level is inside a CPU.
fn fits(outer: &[Level], level: &Level, word: &str) -> Result<(), String> {
    let rank = |kind: Kind| [Kind::Package, Kind::L3, Kind::Core, Kind::Pu].iter().position(|k| *k == kind);
    let inside = |kind: Kind| outer.iter().any(|level| level.kind == kind);
    let wrong = match level.kind {
        Kind::Other => inside(Kind::Pu),
        Kind::Numa => inside(Kind::Core) || inside(Kind::Pu) || inside(Kind::Numa),
        kind => outer.iter().any(|level| rank(level.kind) >= rank(kind) && rank(level.kind).is_some()),
    };
    if wrong { Err(format!("{word:?} cannot stand inside the levels before it")) } else { Ok(()) }
}

/// Splits `name(attributes)`.
fn split_attributes(word: &str) -> Result<(&str, Option<&str>), String> {
    match word.split_once('(') {
        None => Ok((word, None)),
        Some((name, rest)) => {
            let inside =
                rest.strip_suffix(')').ok_or_else(|| format!("{word:?} lacks a closing parenthesis"))?;
            Ok((name, Some(inside)))
        }
    }
}

/// `size=32MiB` or `memory=64GB`. Any other attribute is refused, since it would be ignored
/// silently.
fn bytes(attributes: Option<&str>) -> Result<Option<u64>, String> {
    let Some(text) = attributes else { return Ok(None) };
    let value = text.strip_prefix("size=").or_else(|| text.strip_prefix("memory="));
    let value =
        value.ok_or_else(|| format!("the attribute {text:?} is not understood (size= and memory= are)"))?;
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let unit: u64 = match &value[digits..] {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(format!("{value:?} is not a size such as 32MiB")),
    };
    let bytes = value[..digits].parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.map(Some).ok_or_else(|| format!("{value:?} is not a size such as 32MiB"))
}
