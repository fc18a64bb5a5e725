//! Pipe, FIFO and POSIX message queue: two of each, one per direction, one system call per message.

use super::wire::{Wire, spin};
use super::{IpcError, Mechanism, PATIENCE, Peer, Waiting, unique};
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat, open};
use rustix::io::{Errno, FdFlags, fcntl_setfd, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

type Opened = Result<(Box<dyn Wire>, Peer), IpcError>;

fn unavailable(mechanism: Mechanism) -> impl Fn(Errno) -> IpcError {
    move |errno| IpcError::Unavailable { mechanism, source: errno.into() }
}

/// The reading and the writing end of byte streams that keep messages of up to 4 KiB in one piece.
struct Ends {
    from: OwnedFd,
    to: OwnedFd,
    waiting: Waiting,
}

impl Ends {
    /// Sets both descriptors to block or not to block, by the way of waiting.
    fn over(from: OwnedFd, to: OwnedFd, waiting: Waiting) -> Result<Box<dyn Wire>, IpcError> {
        let flags = match waiting {
            Waiting::Polled => OFlags::NONBLOCK,
            Waiting::Blocking => OFlags::empty(),
        };
        for end in [&from, &to] {
            fcntl_setfl(end, flags).map_err(unavailable(Mechanism::Pipe))?;
        }
        Ok(Box::new(Ends { from, to, waiting }))
    }

    fn again(&self, attempt: impl Fn() -> Result<usize, Errno>) -> Result<usize, IpcError> {
        let once = || match attempt() {
            Ok(count) => Ok(Some(count)),
            Err(Errno::INTR | Errno::AGAIN) => Ok(None),
            Err(Errno::PIPE) => Err(IpcError::Silent),
            Err(other) => Err(IpcError::Io { doing: "moving a message", source: other.into() }),
        };
        match self.waiting {
            Waiting::Polled => spin(once),
            Waiting::Blocking => loop {
                if let Some(count) = once()? {
                    return Ok(count);
                }
            },
        }
    }
}

/// A transfer of fewer bytes than a message means that the other side has ended.
fn whole(count: usize, expected: usize) -> Result<(), IpcError> {
    if count == expected { Ok(()) } else { Err(IpcError::Silent) }
}

impl Wire for Ends {
    fn send(&mut self, message: &[u8]) -> Result<(), IpcError> {
        whole(self.again(|| write(&self.to, message))?, message.len())
    }
    fn receive(&mut self, into: &mut [u8]) -> Result<(), IpcError> {
        let (length, from) = (into.len(), &self.from);
        let into = std::cell::RefCell::new(into);
        whole(self.again(|| read(from, &mut **into.borrow_mut()))?, length)
    }
}

/// Two anonymous pipes; the far process inherits its ends by descriptor number.
pub(super) struct Pipe;

impl Pipe {
    pub(super) fn open(waiting: Waiting, start: impl Fn(String) -> Result<Peer, IpcError>) -> Opened {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(unavailable(Mechanism::Pipe));
        let ((far_from, to), (from, far_to)) = (pipe()?, pipe()?);
        for end in [&far_from, &far_to] {
            fcntl_setfd(end, FdFlags::empty()).map_err(unavailable(Mechanism::Pipe))?;
        }
        let peer = start(format!("{} {}", far_from.as_raw_fd(), far_to.as_raw_fd()))?;
        Ok((Ends::over(from, to, waiting)?, peer))
    }

    pub(super) fn join(waiting: Waiting, place: &str) -> Result<Box<dyn Wire>, IpcError> {
        let bad = || IpcError::BadPeer(place.to_string());
        let (from, to) = place.split_once(' ').ok_or_else(bad)?;
        Ends::over(inherited(from)?, inherited(to)?, waiting)
    }
}

fn inherited(number: &str) -> Result<OwnedFd, IpcError> {
    let bad = || IpcError::BadPeer(number.to_string());
    let number: RawFd = number.parse().map_err(|_| bad())?;
    let kind = fs::metadata(format!("/proc/self/fd/{number}")).map_err(|_| bad())?.file_type();
    if !kind.is_fifo() || number <= 2 {
        return Err(bad());
    }
    // SAFETY: the check above has shown that the descriptor is open and a pipe. This process was
    // started to own exactly the two pipe ends of which it was told the numbers, and it has opened
    // no other pipe.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Two named pipes in a directory, removed once both sides have opened them.
pub(super) struct Fifo;

struct Named([PathBuf; 2]);

impl Drop for Named {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

fn open_end(path: &Path, side: OFlags) -> Result<OwnedFd, Errno> {
    open(path, side | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}

impl Fifo {
    /// Each side first opens an end that does not wait for the other side: the near side its
    /// reading end, the far side its writing end. When the near side can open its writing end, the
    /// far side has opened both of its ends.
    pub(super) fn open(
        waiting: Waiting,
        directory: &Path,
        start: impl Fn(String) -> Result<Peer, IpcError>,
    ) -> Opened {
        let no = unavailable(Mechanism::Fifo);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|source| IpcError::Io { doing: "making a directory for FIFOs", source })?;
        let stem = directory.join(format!("ipc-{}", unique()));
        let paths = Named(["there", "back"].map(|end| stem.with_extension(end)));
        for path in &paths.0 {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(&no)?;
        }
        let from = open_end(&paths.0[1], OFlags::RDONLY).map_err(&no)?;
        let mut peer = start(stem.display().to_string())?;
        let begin = Instant::now();
        let to = loop {
            match open_end(&paths.0[0], OFlags::WRONLY) {
                Ok(to) => break to,
                Err(Errno::NXIO) if begin.elapsed() < PATIENCE && !peer.has_ended() => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(Errno::NXIO) => return Err(IpcError::Silent),
                Err(other) => return Err(no(other)),
            }
        };
        Ok((Ends::over(from, to, waiting)?, peer))
    }

    pub(super) fn join(waiting: Waiting, place: &str) -> Result<Box<dyn Wire>, IpcError> {
        let no = unavailable(Mechanism::Fifo);
        let stem = Path::new(place);
        let to = open_end(&stem.with_extension("back"), OFlags::WRONLY).map_err(&no)?;
        let from = open_end(&stem.with_extension("there"), OFlags::RDONLY).map_err(&no)?;
        // As long as the near side's writing end is not open, a read looks like the end of the
        // stream.
        Ends::over(from, to, waiting).map(|ends| Box::new(LateReader { ends, first: true }) as Box<dyn Wire>)
    }
}

/// The reader of a FIFO that may have opened it before the writer: the first receive waits for the
/// writer.
struct LateReader {
    ends: Box<dyn Wire>,
    first: bool,
}

impl Wire for LateReader {
    fn send(&mut self, message: &[u8]) -> Result<(), IpcError> {
        self.ends.send(message)
    }
    fn receive(&mut self, into: &mut [u8]) -> Result<(), IpcError> {
        let begin = Instant::now();
        while self.first && begin.elapsed() < PATIENCE {
            if self.ends.receive(into).is_ok() {
                self.first = false;
                return Ok(());
            }
        }
        self.ends.receive(into)
    }
}

/// Two POSIX message queues; the near side removes their names when it drops its ends.
pub(super) struct Mqueue {
    from: Queue,
    to: Queue,
    waiting: Waiting,
}

struct Queue {
    descriptor: libc::mqd_t,
    /// The name, on the side that created the queue.
    made: Option<CString>,
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the descriptor came from a successful `mq_open` and is closed once; the name is a
        // C string.
        unsafe {
            libc::mq_close(self.descriptor);
            if let Some(name) = &self.made {
                libc::mq_unlink(name.as_ptr());
            }
        }
    }
}

/// Messages in a queue: the most that Linux allows without privilege.
const QUEUE_MESSAGES: libc::c_long = 10;

impl Queue {
    fn open(name: &str, make_for: Option<usize>, waiting: Waiting) -> Result<Queue, IpcError> {
        let text = CString::new(name).map_err(|_| IpcError::BadPeer(name.to_string()))?;
        let how = match waiting {
            Waiting::Polled => libc::O_RDWR | libc::O_NONBLOCK,
            Waiting::Blocking => libc::O_RDWR,
        } | libc::O_CLOEXEC;
        // SAFETY: the name is a C string. `attributes` is plain data, for all of which zero is
        // valid, and it outlives the call.
        let descriptor = unsafe {
            match make_for {
                None => libc::mq_open(text.as_ptr(), how),
                Some(bytes) => {
                    let mut attributes: libc::mq_attr = std::mem::zeroed();
                    attributes.mq_maxmsg = QUEUE_MESSAGES;
                    attributes.mq_msgsize = bytes as libc::c_long;
                    let mode: libc::mode_t = 0o600;
                    libc::mq_open(text.as_ptr(), how | libc::O_CREAT | libc::O_EXCL, mode, &mut attributes)
                }
            }
        };
        if descriptor < 0 {
            let source = io::Error::last_os_error();
            return Err(IpcError::Unavailable { mechanism: Mechanism::Mqueue, source });
        }
        Ok(Queue { descriptor, made: make_for.map(|_| text) })
    }

    fn send(&self, message: &[u8], until: &libc::timespec) -> Result<Option<usize>, IpcError> {
        // SAFETY: `message` is readable for its length, `until` is a valid time.
        let done =
            unsafe { libc::mq_timedsend(self.descriptor, message.as_ptr().cast(), message.len(), 0, until) };
        outcome(done as isize)
    }

    fn receive(&self, into: &mut [u8], until: &libc::timespec) -> Result<Option<usize>, IpcError> {
        // SAFETY: `into` is writable for its length, the priority may be null, `until` is a valid
        // time.
        let count = unsafe {
            let priority = std::ptr::null_mut();
            libc::mq_timedreceive(self.descriptor, into.as_mut_ptr().cast(), into.len(), priority, until)
        };
        outcome(count as isize)
    }
}

fn outcome(result: isize) -> Result<Option<usize>, IpcError> {
    if result >= 0 {
        return Ok(Some(result as usize));
    }
    let source = io::Error::last_os_error();
    match source.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(None),
        Some(libc::ETIMEDOUT) => Err(IpcError::Silent),
        _ => Err(IpcError::Io { doing: "moving a message through a queue", source }),
    }
}

impl Mqueue {
    pub(super) fn open(
        waiting: Waiting,
        message_bytes: usize,
        start: impl Fn(String) -> Result<Peer, IpcError>,
    ) -> Opened {
        let stem = format!("/atoll-ipc-{}", unique());
        let to = Queue::open(&format!("{stem}-there"), Some(message_bytes), waiting)?;
        let from = Queue::open(&format!("{stem}-back"), Some(message_bytes), waiting)?;
        let peer = start(stem)?;
        Ok((Box::new(Mqueue { from, to, waiting }), peer))
    }

    pub(super) fn join(waiting: Waiting, place: &str) -> Result<Box<dyn Wire>, IpcError> {
        let from = Queue::open(&format!("{place}-there"), None, waiting)?;
        let to = Queue::open(&format!("{place}-back"), None, waiting)?;
        Ok(Box::new(Mqueue { from, to, waiting }))
    }

    fn again(
        &self,
        mut attempt: impl FnMut(&libc::timespec) -> Result<Option<usize>, IpcError>,
    ) -> Result<usize, IpcError> {
        let until = patience_ends();
        match self.waiting {
            Waiting::Polled => spin(|| attempt(&until)),
            Waiting::Blocking => loop {
                if let Some(count) = attempt(&until)? {
                    return Ok(count);
                }
            },
        }
    }
}

/// The wall-clock time, which message queues use, at which a side gives up.
fn patience_ends() -> libc::timespec {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + PATIENCE;
    libc::timespec {
        tv_sec: since.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(since.subsec_nanos()),
    }
}

impl Wire for Mqueue {
    fn send(&mut self, message: &[u8]) -> Result<(), IpcError> {
        self.again(|until| self.to.send(message, until)).map(drop)
    }
    fn receive(&mut self, into: &mut [u8]) -> Result<(), IpcError> {
        let length = into.len();
        whole(self.again(|until| self.from.receive(into, until))?, length)
    }
}
