//! Two connected ends over the device, and the other needs of the scripts of `channel`'s links.

use channel::{Address, Hello, Link, Listener, Parked, Parker, connect};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than any step takes on an emulated machine: an end that waits this long has lost a
/// wake-up.
pub const TOO_LONG: Duration = Duration::from_secs(200);

/// On loopback the first device serves; `ATOLL_RDMA_AT` names another address of this machine.
pub fn at() -> Address {
    rdma::provide();
    let at = std::env::var("ATOLL_RDMA_AT").unwrap_or("127.0.0.1".to_string());
    format!("rdma:{at}:0").parse().unwrap()
}

/// RDMA, and a ring for the one script that is about rings.
pub fn addresses() -> (TempDir, Vec<Address>) {
    let directory = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap();
    let ring = Address::Shm(directory.path().join("shm.sock"));
    (directory, vec![at(), ring])
}

pub fn on_every_channel(script: impl Fn(&'static str, Link, Link)) {
    let (near, far) = connected(&at());
    script("rdma", near, far);
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

/// The next message, by looking again and again.
pub fn spin(link: &mut Link) -> Vec<u8> {
    let start = Instant::now();
    loop {
        if let Some(message) = link.receive().unwrap() {
            return message.to_vec();
        }
        link.flush().unwrap();
        assert!(start.elapsed() < TOO_LONG, "nothing came");
        std::thread::yield_now();
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
