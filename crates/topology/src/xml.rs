//! A machine in an hwloc XML file, format 1 or 2.
//!
//! ```text
//! <topology version="2.0"> <object type="Machine">
//!   <object type="Package" os_index="0">  <info name="CPUModel" value="..."/>
//!     <object type="NUMANode" os_index="0" local_memory="..."/>  format 2: beside the caches
//!     <object type="L3Cache" cache_size="...">                   format 1: around the cores
//!       <object type="Core"> <object type="PU" os_index="0"/> ...
//! <distances2 type="NUMANode" nbobjs="2" ...>
//!   <indexes>0 1</indexes> <u64values>10 21 21 10</u64values>
//! ```
//!
//! Atoll parses the file itself, because hwloc ends the process on a file that contradicts itself.

use roxmltree::{Document, Node, ParsingOptions};

use crate::cpu::{CpuId, NodeId};
use crate::machine::{Machine, NumaNode, Source};
use crate::tables::{Numa, RawPu, assemble};

/// A file with more elements is refused; the largest real machines need about 20,000.
const MOST_ELEMENTS: u32 = 1_000_000;

/// A file with deeper nesting is refused before it is parsed; hwloc's trees are about 15 deep.
const MOST_DEPTH: usize = 200;

/// Parses `text`. The error text states the problem.
pub(crate) fn from_xml(text: &str, path: &str) -> Result<Machine, String> {
    if nesting(text) > MOST_DEPTH {
        return Err(format!("nests deeper than {MOST_DEPTH} elements"));
    }
    // hwloc writes a DOCTYPE line.
    let options = ParsingOptions { allow_dtd: true, nodes_limit: MOST_ELEMENTS, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|e| format!("is not XML ({e})"))?;
    let root = document.root_element();
    if root.tag_name().name() != "topology" {
        return Err(format!("holds <{}>, not <topology>", root.tag_name().name()));
    }
    let objects: Vec<Node> = root.descendants().filter(|node| node.has_tag_name("object")).collect();
    let raw = objects.iter().filter(|object| is(object, "PU")).map(raw_pu).collect::<Result<Vec<_>, _>>()?;
    let model = model(&objects).unwrap_or_else(|| path.to_owned());
    assemble(Source::Xml(path.to_owned()), model, raw, numa(root, &objects)?)
}

/// An upper bound of the elements' nesting: the maximum, over all positions, of opening tags less
/// closing tags. Text inside comments counts too; so an unusual file may be refused, but none that
/// a tool writes.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for tag in text.split('<').skip(1) {
        let closes_itself = tag.split('>').next().is_some_and(|inside| inside.ends_with('/'));
        match tag.as_bytes().first() {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'!' | b'?') | None => {}
            Some(_) if closes_itself => {}
            Some(_) => depth += 1,
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn is(object: &Node, kind: &str) -> bool {
    object.attribute("type") == Some(kind)
}

fn os_index(object: &Node) -> Result<u32, String> {
    let kind = object.attribute("type").unwrap_or("object");
    let text = object.attribute("os_index").ok_or_else(|| format!("has a {kind} without os_index"))?;
    text.parse().map_err(|_| format!("has a {kind} with os_index {text:?}, not a number"))
}

fn raw_pu(pu: &Node) -> Result<RawPu, String> {
    let over = |test: &dyn Fn(&Node) -> bool| pu.ancestors().find(|object| test(object));
    let key = |object: Node| u64::from(object.id().get());
    let l3 = over(&|object| {
        is(object, "L3Cache") || is(object, "Cache") && object.attribute("depth") == Some("3")
    });
    let node = pu.ancestors().find_map(memory_of).map(|node| os_index(&node)).transpose()?;
    Ok(RawPu {
        cpu: CpuId(os_index(pu)?),
        core: over(&|object| is(object, "Core")).map_or(key(*pu), key),
        l3: l3.map(|cache| (key(cache), number(&cache, "cache_size").filter(|bytes| *bytes > 0))),
        package: over(&|object| is(object, "Package") || is(object, "Socket")).map(key),
        node: node.map(NodeId),
    })
}

/// The first node that belongs to exactly this ancestor: itself, its child, or behind a memory-side
/// cache.
fn memory_of<'a, 'input>(object: Node<'a, 'input>) -> Option<Node<'a, 'input>> {
    if is(&object, "NUMANode") {
        return Some(object);
    }
    object.children().find_map(|child| match () {
        () if is(&child, "NUMANode") => Some(child),
        () if is(&child, "MemCache") => child.descendants().find(|inner| is(inner, "NUMANode")),
        () => None,
    })
}

fn number(object: &Node, attribute: &str) -> Option<u64> {
    object.attribute(attribute)?.parse().ok()
}

fn model(objects: &[Node]) -> Option<String> {
    let infos =
        objects.iter().flat_map(|object| object.children()).filter(|child| child.has_tag_name("info"));
    let mut models = infos.filter(|info| info.attribute("name") == Some("CPUModel"));
    let name = models.next()?.attribute("value")?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

fn numa(root: Node, objects: &[Node]) -> Result<Numa, String> {
    let mut nodes = Vec::new();
    for object in objects.iter().filter(|object| is(object, "NUMANode")) {
        let bytes = number(object, "local_memory").filter(|bytes| *bytes > 0);
        nodes.push(NumaNode { node: NodeId(os_index(object)?), bytes });
    }
    nodes.sort_by_key(|node| node.node);
    if let Some(twice) = nodes.windows(2).find(|pair| pair[0].node == pair[1].node) {
        return Err(format!("names NUMA node {} twice", twice[0].node));
    }
    let distances = distances(root, &nodes).unwrap_or_default();
    Ok(Numa { nodes, distances })
}

/// The node-to-node latencies in the order of `nodes`; `None` if the file has none that cover them.
fn distances(root: Node, nodes: &[NumaNode]) -> Option<Vec<Vec<u64>>> {
    let mut matrices = root.children().filter(|child| child.has_tag_name("distances2"));
    let matrix = matrices.find(|matrix| matrix.attribute("type") == Some("NUMANode"))?;
    let numbers = |tag: &str| -> Option<Vec<u64>> {
        let parts = matrix.children().filter(|child| child.has_tag_name(tag));
        let words = parts.filter_map(|part| part.text()).flat_map(str::split_whitespace);
        words.map(|word| word.parse().ok()).collect()
    };
    let (indexes, values) = (numbers("indexes")?, numbers("u64values")?);
    let position = |node: &NumaNode| indexes.iter().position(|index| *index == u64::from(node.node.0));
    let cell = |a: &NumaNode, b: &NumaNode| values.get(position(a)? * indexes.len() + position(b)?).copied();
    nodes.iter().map(|a| nodes.iter().map(|b| cell(a, b)).collect()).collect()
}
