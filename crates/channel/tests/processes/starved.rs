//! A listener in a process that has no descriptor left for its callers.

use crate::common::{TOO_LONG, addresses};
use channel::{Address, ChannelError, Hello, Link, Listener, connect};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const PLACE: &str = "ATOLL_TEST_STARVED_PLACE";
/// Connectors; the first few find descriptors, the others once these are freed.
const CALLERS: usize = 16;
/// Descriptors that are free before the first connector is accepted.
const FREE: u64 = 10;
const SPARE: usize = 80;

fn null() -> File {
    File::open("/dev/null").unwrap()
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Not a test by itself: the part of this binary when the test below starts it as the listening
/// process.
#[test]
fn starved_process() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let listener = Listener::bind(&place.parse().unwrap()).unwrap();
    let spare: Vec<File> = (0..SPARE).map(|_| null()).collect();
    let next = null().as_raw_fd() as u64;
    let limit = Rlimit { current: Some(next + FREE), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let (starved, begun) = mpsc::channel();
    let freeing = thread::spawn(move || {
        begun.recv().unwrap();
        // The processor time that the listener takes while it can accept no caller.
        let (before, window) = (cpu(), Duration::from_millis(400));
        thread::sleep(window);
        let taken = cpu() - before;
        drop(spare);
        (taken, window)
    });
    let (mut links, mut said): (Vec<Link>, Vec<String>) = (Vec::new(), Vec::new());
    while links.len() < CALLERS {
        match listener.accept() {
            Ok((link, _)) => links.push(link),
            Err(error @ ChannelError::Starved { .. }) => {
                said.push(error.to_string());
                let _ = starved.send(());
            }
            Err(error) => panic!("after {} links: {error}", links.len()),
        }
    }
    let (taken, window) = freeing.join().unwrap();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("ulimit -n"), "{said:?}");
    assert!(taken < window / 4, "the listener took {taken:?} of {window:?} while it could let in no caller");
}

fn call(place: &Address) -> Result<Link, ChannelError> {
    loop {
        // A listener of shared memory may give up a handshake for which it finds no descriptors.
        match connect(place, Hello::default(), TOO_LONG) {
            Err(ChannelError::Protocol { .. }) => {}
            other => return other,
        }
    }
}

#[test]
fn a_listener_without_descriptors_says_so_once_rests_and_goes_on() {
    let (_directory, addresses) = addresses();
    for address in &addresses[..2] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "starved::starved_process", "--nocapture"])
            .env(PLACE, address.to_string())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let links: Vec<_> = thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(|| call(address))).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        assert!(links.iter().all(Result::is_ok), "{address}: {links:?}");
        assert!(child.wait().unwrap().success(), "{address}");
    }
}
