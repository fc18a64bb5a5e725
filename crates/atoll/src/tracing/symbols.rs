//! From addresses to functions and components, by `llvm-symbolizer` or `addr2line`. Where the
//! program has line tables (`CARGO_PROFILE_RELEASE_DEBUG=line-tables-only`), inlined code counts
//! for the crate that it was written in; without them, for the function that it was inlined into.

use crate::failure::Failure;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use trace::file::{Block, Function};

/// The component of code that counts for what called it.
const RUNTIME: &str = "runtime";
/// Crates that serve every other one: a frame in them counts for the one around it.
const SERVANTS: [&str; 6] = ["base", "latch", "probe", "world", "smallvec", "hashbrown"];

/// Which component the files of a crate belong to (thesis, section 6.5.3); the longest front that
/// fits decides.
const COMPONENTS: [(&str, &str); 20] = [
    ("access/src/tree", "b-tree"),
    ("access/src/heap", "heap"),
    ("access/src/journal", "log"),
    ("access/src/record", "log"),
    ("access/src/redo", "log"),
    ("access/src", "b-tree"),
    ("locks/src", "locks"),
    ("exec/src/paged/locking", "locks"),
    ("pages/src", "buffer-pool"),
    ("wal/src", "log"),
    ("store/src/rows", "heap"),
    ("store/src/txn", "transactions"),
    ("store/src", "transactions"),
    ("memstore/src/index", "b-tree"),
    ("memstore/src/log", "log"),
    ("memstore/src/commit", "transactions"),
    ("memstore/src", "heap"),
    ("exec/src", "execution"),
    ("instance/src", "execution"),
    ("workload/src", "procedures"),
];

/// Sets the function of each block, and returns the functions. `maps` are the guest's mapped files.
pub fn resolve(blocks: &mut [Block], program: &Path, maps: &str) -> Result<Vec<Function>, Failure> {
    let base = load_base(program, maps);
    let size = std::fs::metadata(program).map_or(0, |m| m.len()).max(1 << 20);
    let in_program = |address: u64| address >= base && address - base < 2 * size;
    let mut addresses: Vec<u64> =
        blocks.iter().map(|b| b.address).filter(|&a| in_program(a)).map(|a| a - base).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let frames = symbolized(program, &addresses)?;
    let found: HashMap<u64, Function> =
        addresses.into_iter().zip(frames.iter().map(|frames| function_of(frames))).collect();
    let mut functions: Vec<Function> = Vec::new();
    let mut numbers: HashMap<(String, String), u32> = HashMap::new();
    for block in blocks {
        let outside = || Function { component: RUNTIME.into(), name: "library".into() };
        let known = in_program(block.address).then(|| found.get(&(block.address - base))).flatten();
        let function = known.cloned().unwrap_or_else(outside);
        let key = (function.component.clone(), function.name.clone());
        block.function = *numbers.entry(key).or_insert_with(|| {
            functions.push(function);
            functions.len() as u32 - 1
        });
    }
    Ok(functions)
}

/// Where the program lies in the guest's memory.
fn load_base(program: &Path, maps: &str) -> u64 {
    let name = program.to_string_lossy();
    let first = maps.lines().find(|line| line.ends_with(&*name));
    let start = first.and_then(|line| u64::from_str_radix(line.split('-').next()?, 16).ok());
    start.unwrap_or(0x40_0000_0000)
}

/// One frame: a function, and the file that it was written in.
type Frame = (String, String);

/// The frames of each address, the innermost first.
fn symbolized(program: &Path, addresses: &[u64]) -> Result<Vec<Vec<Frame>>, Failure> {
    let name = program.to_string_lossy().into_owned();
    let obj = format!("--obj={name}");
    let tools: [(&str, Vec<&str>); 2] = [
        ("llvm-symbolizer", vec![&obj, "--inlines", "--output-style=GNU", "--addresses"]),
        ("addr2line", vec!["-a", "-f", "-i", "-C", "-e", &name]),
    ];
    for (tool, options) in tools {
        let mut command = Command::new(tool);
        command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { continue };
        let asked: String = addresses.iter().map(|a| format!("{a:#x}\n")).collect();
        // Written beside the reading: the tool answers while it is asked.
        let stdin = child.stdin.take();
        let writer = std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(asked.as_bytes())));
        let output = child.wait_with_output();
        let _ = writer.join();
        match output {
            Ok(output) if output.status.success() => {
                return Ok(frames(&String::from_utf8_lossy(&output.stdout)));
            }
            _ => {}
        }
    }
    Err(Failure::Run(
        "neither llvm-symbolizer nor addr2line could name the functions of the trace; install llvm or binutils".into(),
    ))
}

/// Reads the tools' answers: a line with the address, then two lines for each frame.
fn frames(text: &str) -> Vec<Vec<Frame>> {
    let (mut all, mut function): (Vec<Vec<Frame>>, Option<&str>) = (Vec::new(), None);
    for line in text.lines() {
        let is_address = function.is_none() && line.starts_with("0x");
        match (is_address, function.take()) {
            (true, _) => all.push(Vec::new()),
            (false, None) => function = Some(line),
            (false, Some(name)) => {
                if let Some(frames) = all.last_mut() {
                    frames.push((name.to_owned(), line.to_owned()));
                }
            }
        }
    }
    all
}

/// The function of an address: its innermost frame in a crate of a component.
fn function_of(frames: &[Frame]) -> Function {
    for (function, file) in frames {
        let path = path_of(function, file);
        let Some(path) = path.filter(|path| !SERVANTS.iter().any(|s| path.split('/').next() == Some(s)))
        else {
            continue;
        };
        let fits = COMPONENTS.iter().filter(|(front, _)| path.starts_with(front));
        let component = fits.max_by_key(|(front, _)| front.len()).map_or("other", |(_, component)| component);
        return Function { component: component.into(), name: plain(function) };
    }
    let name = frames.first().map_or_else(|| "?".to_owned(), |(function, _)| plain(function));
    Function { component: RUNTIME.into(), name }
}

/// `access/src/tree/read` for a file or a function of this project; `None` for others.
fn path_of(function: &str, file: &str) -> Option<String> {
    if let Some((_, path)) = file.split_once("/crates/") {
        return Some(path.split(".rs").next().unwrap_or(path).to_owned());
    }
    if file.contains("/rustc/") || file.contains("/registry/") || file.contains("/library/") {
        return None;
    }
    // Without line tables only the name tells: `access::tree::read::...`, or `<impl access::...>`.
    let start = function.find(|c: char| c.is_ascii_alphabetic())?;
    let words: Vec<&str> = function[start..].split("::").collect();
    let krate = words.first()?.trim_start_matches("impl ");
    let known = COMPONENTS.iter().any(|(front, _)| front.split('/').next() == Some(krate));
    (known && words.len() > 1).then(|| format!("{krate}/src/{}", words[1..words.len() - 1].join("/")))
}

/// A name without its hash, and without what a tab or a line break would spoil.
fn plain(function: &str) -> String {
    let name =
        function.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16).map_or(function, |(name, _)| name);
    name.replace(['\t', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_frame_of_a_component_counts() {
        let text = "0x10\nword\n/p/crates/base/src/copy.rs:3\nfind\n/p/crates/access/src/tree/search.rs:9\nread\n/p/crates/exec/src/a.rs:1\n0x20\nmemcpy\n??:0\n";
        let all = frames(text);
        assert_eq!(all.len(), 2);
        let named = function_of(&all[0]);
        assert_eq!((named.component.as_str(), named.name.as_str()), ("b-tree", "find"));
        assert_eq!(function_of(&all[1]).component, RUNTIME);
    }

    #[test]
    fn without_line_tables_the_name_tells() {
        let of = |name: &str| function_of(&[(name.to_owned(), "??:0".to_owned())]).component;
        assert_eq!(of("locks::table::LockTable<M>::acquire::h0123456789abcdef"), "locks");
        assert_eq!(of("<impl access::heap::Heap>::insert"), "heap");
        assert_eq!(of("core::ptr::drop_in_place"), RUNTIME);
    }
}
