//! Two connected ends over each channel, and helpers that wait with an end.

use channel::{Address, Hello, Link, Listener, Parked, Parker, connect};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than any step takes here, even on a busy machine: an end that waits this long has lost a
/// wake-up.
pub const TOO_LONG: Duration = Duration::from_secs(20);

/// A directory of mode 0700, as sockets need it.
pub fn private_directory() -> TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
}

/// One address of each channel, in a directory that lives as long as the result.
pub fn addresses() -> (TempDir, Vec<Address>) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let directory = private_directory();
    let addresses = vec![
        Address::Shm(directory.path().join("shm.sock")),
        Address::Uds(directory.path().join("uds.sock")),
        "tcp:0".parse().unwrap(),
        Address::Ring(format!("test {}", NUMBER.fetch_add(1, Ordering::Relaxed))),
    ];
    (directory, addresses)
}

/// Runs the script on two connected ends of every channel.
pub fn on_every_channel(script: impl Fn(&'static str, Link, Link)) {
    let (_directory, addresses) = addresses();
    for address in &addresses {
        let (near, far) = connected(address);
        script(address.channel(), near, far);
    }
}

pub fn connected(address: &Address) -> (Link, Link) {
    let listener = Listener::bind(address).unwrap();
    let place = listener.address().clone();
    std::thread::scope(|scope| {
        let caller = scope.spawn(move || connect(&place, Hello(b"caller".to_vec()), TOO_LONG).unwrap());
        let (far, hello) = listener.accept().unwrap();
        assert_eq!(hello.0, b"caller");
        (caller.join().unwrap(), far)
    })
}

/// The next message, by spinning.
pub fn spin(link: &mut Link) -> Vec<u8> {
    let start = Instant::now();
    loop {
        if let Some(message) = link.receive().unwrap() {
            return message.to_vec();
        }
        link.flush().unwrap();
        assert!(start.elapsed() < TOO_LONG, "nothing came");
        std::hint::spin_loop();
    }
}

/// The next message, by sleeping whenever there is none; a sleep that reaches its limit is a lost
/// wake-up.
pub fn sleep(link: &mut Link, parker: &Parker) -> Vec<u8> {
    loop {
        if let Some(message) = link.receive().unwrap() {
            return message.to_vec();
        }
        link.flush().unwrap();
        assert_ne!(parker.park(Some(TOO_LONG), || true), Parked::TimedOut, "a wake-up was lost");
    }
}

/// `length` bytes that depend on `seed`, so that a mixed-up message is noticed.
pub fn content(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (seed.wrapping_mul(0x9E37_79B9).wrapping_add(i * 7) >> 3) as u8).collect()
}
