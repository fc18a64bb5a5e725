//! `atoll trace`: runs this program's bench under qemu with the recording plugin, and makes a trace
//! file of what the plugin leaves.

mod symbols;

use crate::cli::{HostArg, TraceArgs};
use crate::failure::{Failure, cannot_write};
use crate::output::print;
use base::counted;
use clap::ValueEnum;
use deploy::Interrupt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use trace::TraceFile;
use trace::file::Block;
use world::tell;

const QEMU: &str = "qemu-x86_64";
const PLUGIN: &str = "libtracer.so";
/// How often a running capture is looked at.
const LOOK: Duration = Duration::from_millis(50);

pub fn run(args: &TraceArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    print(&capture(args, interrupt)?)
}

/// Makes the file, and says in a line what it holds. The traced program's messages are told only if
/// it records too little: it measures for an hour, of which the capture takes what it needs.
pub fn capture(args: &TraceArgs, interrupt: &Interrupt) -> Result<String, Failure> {
    if args.host != HostArg::Thread {
        return Err(Failure::Usage(
            "--host process: qemu does not follow a child process, and nothing would be recorded; expected thread"
                .into(),
        ));
    }
    let (program, plugin) = tools()?;
    let beside = args.out.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let scratch = tempfile::tempdir_in(beside).map_err(|e| cannot_write(beside, &e))?;
    let prefix = scratch.path().join("t");
    let messages = scratch.path().join("messages");
    let to = std::fs::File::create(&messages).map_err(|e| cannot_write(&messages, &e))?;
    let mut child = start(args, &program, &plugin, &prefix, to.into())?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(Failure::run)? {
            break status;
        }
        if interrupt.is_set() {
            // Either it has ended by itself, or it is ended here.
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::Interrupted);
        }
        std::thread::sleep(LOOK);
    };
    let wanted =
        if args.quota.is_empty() { args.transactions } else { args.quota.iter().map(|(_, n)| n).sum() };
    let done = std::fs::read_to_string(format!("{}.done", prefix.display())).unwrap_or_default();
    let recorded: u64 = done.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    if recorded < wanted {
        tell_last(&messages);
        return Err(Failure::Run(format!(
            "the trace would hold {recorded} of {wanted} transactions ({status}); expected all of them: ask for \
             fewer, or for kinds that the workload has, and see the messages above"
        )));
    }
    let file = collect(args, &program, &prefix)?;
    let bytes = file.to_bytes();
    std::fs::write(&args.out, &bytes).map_err(|e| cannot_write(&args.out, &e))?;
    Ok(format!(
        "{}: {} of {} kinds, {} of {} functions, {} KB",
        args.out.display(),
        counted(recorded as usize, "transaction"),
        file.kinds.len(),
        counted(file.blocks.len(), "block"),
        file.functions.len(),
        bytes.len() / 1024
    ))
}

/// This program and the plugin. With qemu, which comes first, a capture needs no more.
///
/// # Errors
/// What is missing, and how to get it.
pub fn tools() -> Result<(PathBuf, PathBuf), Failure> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Failure::Run("only the machine code of x86-64 has marks for traces".into()));
    }
    let program = std::env::current_exe().map_err(Failure::run)?;
    ensure_qemu()?;
    let plugin = plugin(&program)?;
    Ok((program, plugin))
}

/// Tells the last messages of the traced program, without its progress.
fn tell_last(messages: &Path) {
    const LAST: usize = 8;
    let text = std::fs::read_to_string(messages).unwrap_or_default(); // only for the user
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.is_empty() && !line.contains("measuring ")).collect();
    lines[lines.len().saturating_sub(LAST)..].iter().for_each(tell);
}

/// This program's version and commit, as a trace names what captured it.
pub fn program() -> String {
    format!("{} of commit {}", driver::VERSION, crate::version::COMMIT)
}

/// The plugin, which is built beside the program.
fn plugin(program: &Path) -> Result<PathBuf, Failure> {
    let dir = program.parent().unwrap_or(Path::new("."));
    let found = [dir.join(PLUGIN), dir.join("deps").join(PLUGIN)].into_iter().find(|path| path.exists());
    found.ok_or_else(|| {
        Failure::Run(format!(
            "{PLUGIN} is not beside {}; build it: cargo build --release --package tracer",
            program.display()
        ))
    })
}

/// Makes sure that qemu is there; installs it where the package manager can.
fn ensure_qemu() -> Result<(), Failure> {
    let is_there =
        || Command::new(QEMU).arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    if is_there() {
        return Ok(());
    }
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--no-install-recommends", "qemu-user"]).stdout(Stdio::null());
    if let Ok(mut child) = install.spawn() {
        tell(format_args!("{QEMU} is not installed; trying apt-get install qemu-user"));
        if child.wait().is_ok_and(|status| status.success()) && is_there() {
            return Ok(());
        }
    }
    Err(Failure::Run(format!(
        "{QEMU} is not installed, and could not be installed; install the package qemu-user (version 7 or later, with plugins)"
    )))
}

fn start(
    args: &TraceArgs,
    program: &Path,
    plugin: &Path,
    prefix: &Path,
    messages: Stdio,
) -> Result<Child, Failure> {
    let mut words = format!("{},out={},skip={}", plugin.display(), prefix.display(), args.skip);
    if args.quota.is_empty() {
        words += &format!(",count={}", args.transactions);
    }
    args.quota.iter().for_each(|(kind, n)| words += &format!(",quota={kind}:{n}"));
    let scale = args.scale.unwrap_or(args.workers);
    let mut command = Command::new(QEMU);
    command.arg("-plugin").arg(words).arg(program).args(["bench", &args.workload]);
    command.args(["--islands", "1", "--host", "thread", "--channel", "ring"]);
    // A list of two would be a sweep.
    if !args.options.iter().any(|option| option == "--clients" || option.starts_with("--clients=")) {
        command.args(["--clients", "1"]);
    }
    command.args(["--durability", "memory", "--warmup", "1ms", "--repeat", "1"]);
    // Time goes on while the guest runs a hundred times slower.
    command.args(["--duration", "3600s", "--lock-timeout", "100s"]);
    command.args(["--workers", &args.workers.to_string(), "--scale", &scale.to_string()]);
    command.args(["--design", &design_name(args), "--seed", &args.seed.to_string()]);
    command.args(&args.options);
    command.stdout(Stdio::null()).stdin(Stdio::null()).stderr(messages);
    command.spawn().map_err(|e| Failure::Run(format!("cannot start {QEMU}: {e}")))
}

fn design_name(args: &TraceArgs) -> String {
    args.design.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}

/// Joins the plugin's files.
fn collect(args: &TraceArgs, program: &Path, prefix: &Path) -> Result<TraceFile, Failure> {
    let read = |name: &str| {
        let path = format!("{}.{name}", prefix.display());
        std::fs::read(&path)
            .map_err(|e| Failure::Run(format!("cannot read {path}: {e}; the plugin should have left it")))
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, &byte| n << 8 | u64::from(byte));
    let block = |bytes: &[u8]| Block {
        address: number(&bytes[..8]),
        bytes: number(&bytes[8..10]) as u16,
        instructions: number(&bytes[10..12]) as u16,
        function: 0,
    };
    let mut blocks: Vec<Block> = read("blocks")?.chunks_exact(16).map(block).collect();
    let maps = String::from_utf8_lossy(&read("maps")?).into_owned();
    let functions = symbols::resolve(&mut blocks, program, &maps)?;
    let kinds = String::from_utf8_lossy(&read("kinds")?).lines().map(str::to_owned).collect();
    let mut streams = Vec::new();
    while let Ok(stream) = read(&streams.len().to_string()) {
        streams.push(stream);
    }
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let meta = vec![
        fact("workload", args.workload.clone()),
        fact("design", design_name(args)),
        fact("scale", args.scale.unwrap_or(args.workers).to_string()),
        fact("workers", args.workers.to_string()),
        fact("seed", args.seed.to_string()),
        fact("skip", args.skip.to_string()),
        fact("options", args.options.join(" ")),
        fact("program", self::program()),
    ];
    Ok(TraceFile { meta, kinds, functions, blocks, streams })
}

#[cfg(test)]
mod tests {
    use probe::mark;
    use trace::code;

    /// The machine code and the tracer, which reads the numbers of `trace::code`, agree.
    #[test]
    fn marks_have_one_number_each() {
        let both = [
            (mark::MAGIC >> 16, code::MAGIC),
            (mark::END, code::END),
            (mark::TRANSACTION, code::TRANSACTION),
            (mark::COMMIT, code::COMMIT),
            (mark::TASK, code::TASK),
            (mark::READ, code::READ),
            (mark::UPDATE, code::UPDATE),
            (mark::INSERT, code::INSERT),
            (mark::APPEND, code::APPEND),
            (mark::DELETE, code::DELETE),
            (mark::SCAN, code::SCAN),
            (mark::AHEAD, code::AHEAD),
            (mark::LOOKUP, code::LOOKUP),
            (mark::LOCK, code::LOCK),
            (mark::CREATE_RECORD, code::CREATE_RECORD),
            (mark::CREATE_ENTRY, code::CREATE_ENTRY),
            (mark::RESTRUCTURE, code::RESTRUCTURE),
            (mark::ALLOCATE, code::ALLOCATE),
            (mark::CURSOR, code::CURSOR),
            (mark::FETCH, code::FETCH),
            (mark::CHANGE, code::CHANGE),
        ];
        assert!(both.iter().all(|(of_probe, of_trace)| *of_probe == u32::from(*of_trace)));
        let known = code::OPERATIONS.len() + code::PARTS.len();
        assert_eq!(both.len(), known + 4, "a mark is missing here");
    }
}
