//! Stations before instances that answer each request with its own bytes.

use base::InstanceId;
use channel::lodging::{House, Place, Resident, Round};
use channel::{Address, Doze, Link, Listener, Parker};
use server::carrier::{Instances, NoAnswer, Reply};
use server::station::{self, Stations};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::{Caller, Frame, Hello};

/// An instance, as far as its links show it.
struct Echo {
    parker: Parker,
    links: Vec<Link>,
    /// Links that were accepted, and not taken yet.
    accepted: Arc<Mutex<Vec<Link>>>,
    /// After this many requests the instance ends.
    most: u64,
    answered: Arc<AtomicU64>,
}

impl Echo {
    fn new(accepted: Arc<Mutex<Vec<Link>>>, most: u64, answered: Arc<AtomicU64>) -> Echo {
        Echo { parker: Parker::new().unwrap(), links: Vec::new(), accepted, most, answered }
    }

    fn has_accepted(&self) -> bool {
        !self.accepted.lock().unwrap().is_empty()
    }
}

impl Resident for Echo {
    fn round(&mut self) -> Round {
        for mut link in self.accepted.lock().unwrap().drain(..) {
            link.register(&self.parker).unwrap();
            self.links.push(link);
        }
        let mut works = false;
        let mut out = Vec::new();
        for link in &mut self.links {
            while let Ok(Some(message)) = link.receive() {
                let Ok(Frame::Submit { call, request }) = Frame::decode(message) else {
                    panic!("{message:?}")
                };
                Frame::Done { call, outcome: Ok(()), reply: request }.encode(&mut out);
                works = true;
                if self.answered.fetch_add(1, Ordering::Relaxed) >= self.most {
                    return Round::Ended;
                }
                link.send(&[&out]).unwrap();
            }
            // The other end may have gone.
            let _ = link.flush();
        }
        if works { Round::Worked } else { Round::Idle }
    }

    fn time_left(&self) -> Duration {
        // New links have no bell here.
        Duration::from_millis(5)
    }

    fn may_sleep(&mut self) -> bool {
        self.parker.doze(|| !self.has_accepted()) == Doze::MaySleep
    }

    fn awake(&mut self) {
        self.parker.rise();
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.parker.as_fd()
    }

    fn take_events(&mut self) {
        self.parker.take_events();
    }

    fn end(self: Box<Self>) {}
}

/// Accepts links until the first caller of another deployment. Returns what callers named as their
/// place.
fn accept(listener: Listener, into: Arc<Mutex<Vec<Link>>>) -> std::thread::JoinHandle<Vec<Caller>> {
    std::thread::spawn(move || {
        let mut callers = Vec::new();
        while let Ok((link, hello)) = listener.accept() {
            let hello = Hello::decode(&hello.0).unwrap();
            if hello.deployment == 0 {
                break;
            }
            callers.push(hello.from);
            into.lock().unwrap().push(link);
        }
        callers
    })
}

fn stop_accepting(address: &Address) {
    let hello = Hello { version: wire::VERSION, deployment: 0, from: Caller::Client };
    drop(channel::connect(address, channel::Hello(hello.encode()), Duration::ZERO).unwrap());
}

/// Sends a request from a session on a station, and waits for its answer.
async fn asked(deployment: u64, home: u16, request: Vec<u8>) -> Reply {
    let (reply, answer) = station::reply();
    station::send(deployment, |carrier, scratch| {
        assert!(scratch.is_empty());
        scratch.extend_from_slice(&request);
        carrier.submit(InstanceId(home), scratch, reply);
    })
    .expect("a station of this deployment");
    answer.await.unwrap()
}

/// Sessions on all stations send `count` requests in all, many at once.
fn ask_many(stations: &Stations, deployment: u64, count: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut sessions = tokio::task::JoinSet::new();
        for session in 0..8 {
            let handle = stations.next().unwrap();
            sessions.spawn_on(
                async move {
                    for i in 0..count / 8 {
                        let request = [session.to_string(), i.to_string()].join("-").into_bytes();
                        let answered = asked(deployment, 0, request.clone()).await.unwrap();
                        assert_eq!((answered.bytes, answered.ends), (request, true));
                    }
                },
                &handle,
            );
        }
        while let Some(session) = sessions.join_next().await {
            session.unwrap();
        }
    });
}

#[test]
fn sessions_of_a_station_reach_an_instance_on_another_thread() {
    const NUMBER: u64 = 31;
    let address = Address::Ring("stations-31".into());
    let links = Arc::new(Mutex::new(Vec::new()));
    let accepting = accept(Listener::bind(&address).unwrap(), Arc::clone(&links));
    let answered = Arc::new(AtomicU64::new(0));
    let theirs = Arc::clone(&answered);
    let instance = std::thread::spawn(move || {
        let mut echo = Echo::new(links, 4000, theirs);
        while echo.round() != Round::Ended {
            echo.parker.park(Some(Duration::from_millis(5)), || !echo.has_accepted());
        }
    });
    let stations = Arc::new(Stations::default());
    stations.connect(Instances { deployment: NUMBER, addresses: vec![address.clone()] });
    stations.start(2).unwrap();
    ask_many(&stations, NUMBER, 4000);
    assert_eq!(answered.load(Ordering::Relaxed), 4000);
    // The next request is the instance's last: it has no answer, and its session is told.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let ask = |home| stations.next().unwrap().spawn(asked(NUMBER, home, b"last".into()));
    assert_eq!(runtime.block_on(ask(0)).unwrap().unwrap_err(), NoAnswer::Lost);
    let unknown = runtime.block_on(ask(1)).unwrap().unwrap_err();
    assert!(matches!(&unknown, NoAnswer::Unreachable(why) if why.contains("no instance 1")), "{unknown:?}");
    // Not on a station, or on one of another deployment: another way has to be taken.
    assert!(station::send(NUMBER, |_, _| ()).is_none());
    let handle = stations.next().unwrap();
    assert!(
        runtime.block_on(handle.spawn(async { station::send(NUMBER + 1, |_, _| ()).is_none() })).unwrap()
    );
    instance.join().unwrap();
    stop_accepting(&address);
    assert_eq!(accepting.join().unwrap(), [Caller::Client, Caller::Client]);
    stations.stop();
    while stations.next().is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn sessions_share_the_thread_of_a_worker() {
    const NUMBER: u64 = 32;
    let address = Address::Ring("stations-32".into());
    let links = Arc::new(Mutex::new(Vec::new()));
    let accepting = accept(Listener::bind(&address).unwrap(), Arc::clone(&links));
    let answered = Arc::new(AtomicU64::new(0));
    let stations = Arc::new(Stations::default());
    let (house, theirs) = (Arc::clone(&stations), Arc::clone(&answered));
    let worker = std::thread::spawn(move || {
        let echo = Echo::new(links, 4000, theirs);
        house.lodge(Place { instance: 0, worker: 3 }, Box::new(echo));
    });
    while stations.next().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    stations.connect(Instances { deployment: NUMBER, addresses: vec![address.clone()] });
    // There is one already.
    stations.start(2).unwrap();
    ask_many(&stations, NUMBER, 4000);
    assert_eq!(answered.load(Ordering::Relaxed), 4000);
    let last = stations.next().unwrap().spawn(asked(NUMBER, 0, b"last".into()));
    worker.join().unwrap();
    // The station ends with its lodger, and with it the session.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(last).unwrap_err().is_cancelled());
    assert!(stations.next().is_none());
    stop_accepting(&address);
    // The link to the worker's own instance asks for that worker.
    assert_eq!(accepting.join().unwrap(), [Caller::ClientAt(base::WorkerId(3))]);
}
