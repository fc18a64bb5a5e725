//! A tied end: bytes in and out, credits, completions, and the wake-up of a sleeper.
//!
//! # Access rules
//!
//! - One thread at a time works with the end; the lock makes this a rule that the compiler keeps.
//! - A receive buffer belongs to the device from `post_receive` until its completion was taken, and
//!   then to this end until it is posted again. A send buffer is free, or belongs to the device
//!   until its completion was taken.
//!
//! # Sleeping
//!
//! `arm` asks for an event with the next completion. A completion that was there before has none,
//! so the sleeper looks once more (`stirred`) and sleeps only if nothing has come since.
//! Completions of sends make no events, except where the end waits for a send buffer or for room
//! for a grant: a busy link would wake its owner twice for each message.

use crate::card::BUFFER_BYTES;
use crate::credits::Credits;
use crate::end::{End, RECEIVES, SENDS, post_receive};
use channel::fabric::Lane;
use rdma_mummy_sys::{
    ibv_ack_cq_events, ibv_get_cq_event, ibv_poll_cq, ibv_req_notify_cq, ibv_wc, ibv_wc_flags, ibv_wc_status,
    ibv_wc_status_str,
};
use sideway::ibverbs::completion::{BasicCompletionQueue, CompletionChannel, CompletionQueue};
use sideway::ibverbs::queue_pair::{PostSendGuard, QueuePair, SetScatterGatherEntry, WorkRequestFlags};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Names a grant in the send queue; data has the number of its buffer.
const GRANT: u64 = u64::MAX;
/// How long the end of a link waits for its last sends.
const LINGER: Duration = Duration::from_millis(500);

/// A receive buffer with bytes that were not pulled.
struct Arrived {
    buffer: u16,
    from: usize,
    until: usize,
}

/// A completed work request.
struct Done {
    id: u64,
    bytes: usize,
    /// The immediate value, if there is one; why the request failed.
    value: Result<Option<u32>, String>,
}

/// The state of a tied end.
pub(crate) struct Work {
    end: End,
    credits: Credits,
    /// Send buffers that the device does not use.
    free: Vec<u16>,
    arrived: VecDeque<Arrived>,
    /// Sends that the device has not completed.
    queued: usize,
    /// Something has come since the end was armed.
    stirred: bool,
    /// The end waits for completions of sends.
    wants_sent: bool,
    fault: Option<String>,
}

pub(crate) struct Tied {
    work: Mutex<Work>,
    events: Arc<CompletionChannel>,
}

/// Takes one completion, if there is one.
fn completed(queue: &BasicCompletionQueue) -> Result<Option<Done>, String> {
    let mut space = MaybeUninit::<ibv_wc>::uninit();
    // SAFETY: the queue lives as long as the reference to it; there is space for one completion.
    let count = unsafe { ibv_poll_cq(queue.cq().as_ptr(), 1, space.as_mut_ptr()) };
    if count < 1 {
        return if count == 0 { Ok(None) } else { Err(format!("a completion queue failed ({count})")) };
    }
    // SAFETY: the library has filled in one completion.
    let done = unsafe { space.assume_init_ref() };
    let value = match done.status {
        ibv_wc_status::IBV_WC_SUCCESS if done.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0 => {
            // SAFETY: the flag says that this field of the union is the one that was filled in.
            Ok(Some(u32::from_be(unsafe { done.imm_data_invalidated_rkey_union.imm_data })))
        }
        ibv_wc_status::IBV_WC_SUCCESS => Ok(None),
        status => Err(status_text(status)),
    };
    Ok(Some(Done { id: done.wr_id, bytes: done.byte_len as usize, value }))
}

fn status_text(status: ibv_wc_status::Type) -> String {
    // SAFETY: the library returns a text of its own that is never changed, or null.
    let text = unsafe { ibv_wc_status_str(status) };
    if text.is_null() {
        return format!("a request failed with status {status}");
    }
    // SAFETY: not null, and so a text that ends with a NUL.
    format!("a request failed: {}", unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

impl Work {
    pub(crate) fn new(end: End, credits: Credits) -> Work {
        Work {
            end,
            credits,
            free: (0..SENDS).rev().collect(),
            arrived: VecDeque::new(),
            queued: 0,
            stirred: false,
            wants_sent: false,
            fault: None,
        }
    }

    fn fail(&mut self, why: String) {
        self.fault.get_or_insert(why);
    }

    /// Takes all completions, and makes the grant that is due.
    fn look(&mut self) {
        loop {
            match completed(&self.end.received) {
                Ok(Some(done)) => self.receive(done),
                Ok(None) => break,
                Err(why) => return self.fail(why),
            }
        }
        loop {
            match completed(&self.end.sent) {
                Ok(Some(done)) => self.leave(done),
                Ok(None) => break,
                Err(why) => return self.fail(why),
            }
        }
        self.grant();
    }

    /// A receive buffer has come back.
    fn receive(&mut self, done: Done) {
        self.stirred = true;
        let heard = match done.value {
            Err(why) => Err(why),
            Ok(None) => Err("the peer has sent a message without credits".to_string()),
            Ok(Some(_)) if done.id >= u64::from(RECEIVES) || done.bytes > BUFFER_BYTES => {
                Err("the device reports a buffer that there is not".to_string())
            }
            Ok(Some(value)) => self.credits.heard(value),
        };
        match heard {
            Err(why) => self.fail(why),
            Ok(()) if done.bytes == 0 => self.post_again(done.id as u16),
            Ok(()) => {
                self.arrived.push_back(Arrived { buffer: done.id as u16, from: 0, until: done.bytes });
            }
        }
    }

    /// A send has left the queue.
    fn leave(&mut self, done: Done) {
        self.stirred |= self.wants_sent;
        self.queued -= 1;
        match done.id {
            GRANT => self.credits.grant_left(),
            buffer => self.free.push(buffer as u16),
        }
        if let Err(why) = done.value {
            self.fail(why);
        }
    }

    fn post_again(&mut self, buffer: u16) {
        if let Err(why) = post_receive(&mut self.end.pair, &self.end.buffers, buffer) {
            self.fail(why);
        }
    }

    fn grant(&mut self) {
        if self.fault.is_none()
            && let Some(value) = self.credits.grant()
            && let Err(why) = self.post_send(GRANT, value, None)
        {
            self.fail(why);
        }
    }

    /// Sends the first bytes of a send buffer, or none.
    fn post_send(&mut self, id: u64, value: u32, data: Option<(u16, usize)>) -> Result<(), String> {
        let mut request = self.end.pair.start_post_send();
        let send = request.construct_wr(id, WorkRequestFlags::Signaled).setup_send_imm(value.to_be());
        if let Some((buffer, bytes)) = data {
            let (key, at) = self.end.buffers.place(usize::from(RECEIVES + buffer));
            // SAFETY: the place is the front of a buffer of memory that is registered under this
            // key and lives longer than the queue pair. It is not written until the completion was
            // taken.
            unsafe { send.setup_sge(key, at, bytes as u32) };
        }
        request.post().map_err(|error| format!("posting a send: {error}"))?;
        self.queued += 1;
        Ok(())
    }

    /// Sends these bytes, at most a buffer's; `false` without a credit or a send buffer.
    fn send(&mut self, bytes: &[u8]) -> Result<bool, String> {
        if !self.credits.may_send() {
            return Ok(false);
        }
        let Some(buffer) = self.free.pop() else { return Ok(false) };
        let value = self.credits.send();
        // SAFETY: the buffer was free: its last send has completed. The lock is held.
        unsafe { self.end.buffers.fill(usize::from(RECEIVES + buffer), bytes) };
        self.post_send(buffer.into(), value, Some((buffer, bytes.len()))).map(|()| true)
    }

    /// Moves bytes of the first receive buffer; returns how many.
    fn take(&mut self, space: &mut [u8]) -> usize {
        let Some(first) = self.arrived.front_mut() else { return 0 };
        let count = space.len().min(first.until - first.from);
        // SAFETY: the buffer's completion was taken, and it was not posted again. The lock is held.
        unsafe { self.end.buffers.take(first.buffer.into(), first.from, &mut space[..count]) };
        first.from += count;
        if first.from == first.until
            && let Some(Arrived { buffer, .. }) = self.arrived.pop_front()
        {
            self.post_again(buffer);
            self.credits.freed();
        }
        count
    }
}

impl Tied {
    /// # Errors
    /// The first grant cannot be sent.
    pub(crate) fn new(mut work: Work) -> Result<Tied, String> {
        work.grant();
        match work.fault.take() {
            Some(why) => Err(why),
            None => Ok(Tied { events: work.end.events.clone(), work: Mutex::new(work) }),
        }
    }

    /// A poisoned lock is usable: after a panic the counts may be wrong, which the checks of the
    /// credits at both ends find.
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the events that have made the descriptor readable.
    fn take_events(&self) {
        loop {
            let (mut queue, mut context) = (null_mut(), null_mut());
            // SAFETY: the channel lives as long as `self`. It does not block.
            let got =
                unsafe { ibv_get_cq_event(self.events.comp_channel().as_ptr(), &mut queue, &mut context) };
            if got != 0 {
                return;
            }
            // SAFETY: the library has returned the queue of the event, one of this end's two.
            unsafe { ibv_ack_cq_events(queue, 1) };
        }
    }
}

fn notify(queue: &BasicCompletionQueue) -> Result<(), String> {
    // SAFETY: the queue lives as long as the reference to it.
    match unsafe { ibv_req_notify_cq(queue.cq().as_ptr(), 0) } {
        0 => Ok(()),
        error => Err(format!("a completion queue makes no events ({error})")),
    }
}

impl Lane for Tied {
    fn push(&self, bytes: &[u8]) -> Result<usize, String> {
        let mut work = self.work();
        work.look();
        let mut pushed = 0;
        for piece in bytes.chunks(BUFFER_BYTES) {
            if let Some(why) = &work.fault {
                return Err(why.clone());
            }
            match work.send(piece) {
                Ok(true) => pushed += piece.len(),
                Ok(false) => break,
                Err(why) => work.fail(why),
            }
        }
        Ok(pushed)
    }

    fn pull(&self, space: &mut [u8]) -> Result<usize, String> {
        let mut work = self.work();
        work.look();
        let mut pulled = 0;
        loop {
            match work.take(&mut space[pulled..]) {
                0 => break,
                count => pulled += count,
            }
        }
        work.grant();
        match &work.fault {
            Some(why) if pulled == 0 => Err(why.clone()),
            _ => Ok(pulled),
        }
    }

    fn has_bytes(&self) -> bool {
        let mut work = self.work();
        work.look();
        !work.arrived.is_empty() || work.fault.is_some()
    }

    fn has_room(&self) -> bool {
        let mut work = self.work();
        work.look();
        (work.credits.may_send() && !work.free.is_empty()) || work.fault.is_some()
    }

    fn arm(&self) {
        self.take_events();
        let mut work = self.work();
        work.stirred = false;
        work.wants_sent = work.free.is_empty() || work.credits.owes_grant();
        let armed = notify(&work.end.received);
        let armed = armed.and_then(|()| if work.wants_sent { notify(&work.end.sent) } else { Ok(()) });
        if let Err(why) = armed {
            work.fail(why);
            work.stirred = true;
        }
    }

    fn stirred(&self) -> bool {
        let mut work = self.work();
        work.look();
        work.stirred
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel keeps its descriptor open, and lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.events.as_raw_fd()) }
    }

    fn close(&self) {
        let start = Instant::now();
        loop {
            let mut work = self.work();
            work.look();
            if work.queued == 0 || work.fault.is_some() || start.elapsed() > LINGER {
                return;
            }
            drop(work);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
