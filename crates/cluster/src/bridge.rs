//! Carries the orders and replies of one instance between a local socket and a link to another
//! machine, in both directions.
//!
//! ```text
//!   socket --reader thread--> outbox --> link        a frame: tag, bytes
//!   socket <-------------- owner thread <-- link     BYTES, KILL, WORDS, or an empty sign of life
//! ```
//!
//! # Access rules
//!
//! The owner thread owns the link. Any thread may put into the outbox.

use crate::talk::Talk;
use channel::{SendError, Unparker};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A part of an order or a reply.
const BYTES: u8 = 0;
/// Kill the process of the instance.
const KILL: u8 = 1;
/// Why the instance has ended.
const WORDS: u8 = 2;
/// The longest part.
const PART: usize = 64 * 1024;
/// How often each end speaks.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);
/// A silence of this length means that the other machine, or the way to it, is gone.
const SILENCE: Duration = Duration::from_secs(5);

/// What is to be sent.
enum Load {
    Bytes(Vec<u8>),
    Kill,
    /// Everything has been said.
    End,
}

/// The way into a bridge for other threads.
#[derive(Clone)]
pub(crate) struct Outbox(Arc<Mutex<VecDeque<Load>>>, Unparker);

impl Outbox {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Load>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, load: Load) {
        self.queue().push_back(load);
        self.1.unpark();
    }

    /// Asks the other end to kill the instance.
    pub fn kill(&self) {
        self.put(Load::Kill);
    }
}

/// What an end does when the other one says so.
pub(crate) trait End: Send {
    fn kill(&mut self) {}
    fn words(&mut self, _words: String) {}
    /// The socket has ended: the last words for the other end.
    fn last_words(&mut self) -> String {
        String::new()
    }
}

/// A bridge that is about to start.
pub(crate) struct Bridge {
    talk: Talk,
    outbox: Outbox,
}

impl Bridge {
    pub fn over(talk: Talk) -> Bridge {
        let outbox = Outbox(Arc::default(), talk.parker.unparker());
        Bridge { talk, outbox }
    }

    pub fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Carries until either side ends; then both have ended.
    pub fn carry(mut self, socket: UnixStream, end: &mut dyn End) {
        if self.start_reader(&socket).is_ok()
            && let Err(why) = self.run(&socket, end)
        {
            end.words(why);
        }
        let _ = socket.shutdown(Shutdown::Both); // it may have ended already
    }

    fn start_reader(&self, socket: &UnixStream) -> std::io::Result<()> {
        let (mut socket, outbox) = (socket.try_clone()?, self.outbox.clone());
        let body = move || {
            let mut part = vec![0; PART];
            while let Ok(count @ 1..) = socket.read(&mut part) {
                outbox.put(Load::Bytes(part[..count].to_vec()));
            }
            outbox.put(Load::End);
        };
        std::thread::Builder::new().name("bridge-reader".into()).spawn(body).map(drop)
    }

    /// # Errors
    /// Why the other machine counts as lost.
    fn run(&mut self, socket: &UnixStream, end: &mut dyn End) -> Result<(), String> {
        let (mut heard, mut spoken) = (Instant::now(), Instant::now());
        loop {
            let load = self.outbox.queue().pop_front();
            match load {
                Some(Load::Bytes(bytes)) => self.send(&[&[BYTES], &bytes])?,
                Some(Load::Kill) => self.send(&[&[KILL]])?,
                Some(Load::End) => {
                    let words = end.last_words();
                    self.send(&[&[WORDS], words.as_bytes()])?;
                    self.drain();
                    return Ok(());
                }
                None if spoken.elapsed() > SIGN_OF_LIFE => {
                    self.send(&[])?;
                    spoken = Instant::now();
                }
                None => {}
            }
            // The next receive reports the end of the link, after what came before it.
            let _ = self.talk.link.flush();
            while let Some(message) = self.talk.link.receive().map_err(|e| e.to_string())? {
                heard = Instant::now();
                match message.split_first() {
                    Some((&BYTES, bytes)) => (&*socket).write_all(bytes).map_err(|e| e.to_string())?,
                    Some((&KILL, _)) => end.kill(),
                    Some((&WORDS, words)) if !words.is_empty() => {
                        end.words(String::from_utf8_lossy(words).into_owned());
                    }
                    _ => {}
                }
            }
            if heard.elapsed() > SILENCE {
                return Err(format!("nothing was heard of it for {} s", SILENCE.as_secs()));
            }
            let outbox = &self.outbox;
            self.talk.parker.park(Some(SIGN_OF_LIFE / 2), || outbox.queue().is_empty());
        }
    }

    /// Sends one frame, unless the link has ended: the next receive reports that.
    fn send(&mut self, parts: &[&[u8]]) -> Result<(), String> {
        let until = Instant::now() + SILENCE;
        loop {
            match self.talk.link.send(parts) {
                Ok(()) | Err(SendError::Closed(_)) => return Ok(()),
                Err(SendError::Full { .. }) if Instant::now() < until => {
                    let _ = self.talk.link.flush();
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(other) => return Err(other.to_string()),
            }
        }
    }

    /// Waits until everything has left, or the link has ended.
    fn drain(&mut self) {
        let until = Instant::now() + SILENCE;
        while Instant::now() < until && self.talk.link.flush().is_ok() && self.talk.link.held() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
