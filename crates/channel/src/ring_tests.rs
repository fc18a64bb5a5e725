//! The ring in one thread, under a hostile peer, and in all interleavings that loom explores.

use super::*;
use proptest::prelude::*;
use std::sync::Arc;

impl<W: Word> Words for Arc<Vec<W>> {
    type Word = W;
    fn words(&self) -> &[W] {
        self
    }
}

type Cells = Arc<Vec<AtomicU64>>;

fn ring(words: usize) -> (Producer<Cells>, Consumer<Cells>, Cells) {
    let cells: Cells = Arc::new((0..INDEX_WORDS + words).map(|_| AtomicU64::new(0)).collect());
    (Producer::new(cells.clone()), Consumer::new(cells.clone()), cells)
}

fn push(producer: &mut Producer<impl Words>, bytes: &[u8]) -> bool {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(8), 0);
    producer.push(&padded, bytes.len(), false).unwrap()
}

#[test]
fn frames_of_every_length_come_out_as_they_went_in_across_the_seam() {
    let (mut producer, mut consumer, _) = ring(64);
    let mut buffer = Vec::new();
    for round in 0..2000usize {
        let message: Vec<u8> = (0..round % (producer.frame_bytes() + 1)).map(|i| (i + round) as u8).collect();
        assert!(push(&mut producer, &message));
        assert!(consumer.poll());
        let piece = consumer.pop(&mut buffer, 0).unwrap().unwrap();
        assert_eq!(piece, Piece { bytes: message.len(), continues: false });
        assert_eq!(buffer[..piece.bytes], message);
        consumer.give_back();
        assert!(!consumer.poll());
        assert_eq!(consumer.pop(&mut buffer, 0), Ok(None));
    }
}

#[test]
fn a_full_ring_refuses_and_takes_again_once_a_quarter_was_read() {
    let (mut producer, mut consumer, cells) = ring(64);
    let most = producer.frame_bytes();
    let mut pushed = 0;
    while push(&mut producer, &vec![7; most]) {
        pushed += 1;
    }
    // Three whole quarters: the fourth would leave no word for the 0 after it.
    assert_eq!(pushed, 3);
    assert!(!Bells(cells.clone()).room_for(producer.tail(), 16));
    consumer.pop(&mut Vec::new(), 0).unwrap().unwrap();
    consumer.give_back();
    assert!(Bells(cells).room_for(producer.tail(), 16));
    assert!(push(&mut producer, &vec![7; most]));
}

#[test]
fn a_bell_is_asked_for_once_per_announcement() {
    let (mut producer, consumer, cells) = ring(64);
    let bells = Bells(cells);
    assert!(push(&mut producer, b"x"));
    assert!(!producer.must_wake_receiver());
    bells.receiver_may_sleep();
    assert!(bells.anything_for(consumer.head()));
    assert!(producer.must_wake_receiver());
    assert!(!producer.must_wake_receiver());
}

/// An action of the peer on the shared words between two operations of this end.
#[derive(Clone, Debug)]
enum Act {
    Scribble { word: usize, value: u64 },
    Push(usize),
    Pop,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let value = prop_oneof![
        any::<u64>(),
        0u64..80,
        (0u64..600).prop_map(|v| v | CONTINUES | PRESENT),
        (0u64..200).prop_map(|v| v | PRESENT),
        Just(u64::MAX)
    ];
    let act = prop_oneof![
        3 => (0usize..INDEX_WORDS + 64, value).prop_map(|(word, value)| Act::Scribble { word, value }),
        1 => (0usize..=120).prop_map(Act::Push),
        2 => Just(Act::Pop),
    ];
    proptest::collection::vec(act, 1..60)
}

proptest! {
    #[test]
    fn a_peer_that_scribbles_into_the_ring_causes_errors_and_nothing_else(acts in acts()) {
        let (mut producer, mut consumer, cells) = ring(64);
        let mut buffer = Vec::new();
        for act in acts {
            match act {
                Act::Scribble { word, value } => cells[word].store(value, Ordering::Relaxed),
                Act::Push(bytes) => {
                    if producer.push(&vec![1; bytes.next_multiple_of(8)], bytes, false).is_err() {
                        break;
                    }
                }
                Act::Pop => match consumer.pop(&mut buffer, 0) {
                    Ok(piece) => {
                        consumer.give_back();
                        prop_assert!(piece.is_none_or(|p| p.bytes <= 120));
                    }
                    Err(_) => break,
                },
            }
            let bells = Bells(cells.clone());
            bells.anything_for(consumer.head());
            bells.room_for(producer.tail(), 9);
        }
        prop_assert!(buffer.len() <= 120);
    }
}

/// The same ring and the same protocol over loom's atomics. A lost wake-up is a deadlock there, and
/// loom finds it.
mod interleavings {
    use super::super::*;
    use loom::sync::atomic::{AtomicU64 as LoomWord, fence};
    use loom::sync::{Arc, Condvar, Mutex};

    impl Word for LoomWord {
        fn load(&self, order: Ordering) -> u64 {
            LoomWord::load(self, order)
        }
        fn store(&self, value: u64, order: Ordering) {
            LoomWord::store(self, value, order)
        }
        fn swap(&self, value: u64, order: Ordering) -> u64 {
            LoomWord::swap(self, value, order)
        }
        fn full_fence() {
            fence(Ordering::SeqCst)
        }
    }

    /// The protocol without its fences: loom must find the lost wake-up.
    struct Unfenced(LoomWord);

    impl Word for Unfenced {
        fn load(&self, order: Ordering) -> u64 {
            self.0.load(order)
        }
        fn store(&self, value: u64, order: Ordering) {
            self.0.store(value, order)
        }
        fn swap(&self, value: u64, order: Ordering) -> u64 {
            self.0.swap(value, order)
        }
        fn full_fence() {}
    }

    trait Fresh: Word + 'static {
        fn zero() -> Self;
    }
    impl Fresh for LoomWord {
        fn zero() -> Self {
            LoomWord::new(0)
        }
    }
    impl Fresh for Unfenced {
        fn zero() -> Self {
            Unfenced(LoomWord::new(0))
        }
    }

    struct Cells<W>(Arc<Vec<W>>);

    impl<W> Clone for Cells<W> {
        fn clone(&self) -> Self {
            Cells(self.0.clone())
        }
    }

    impl<W: Word> Words for Cells<W> {
        type Word = W;
        fn words(&self) -> &[W] {
            &self.0
        }
    }

    fn cells<W: Fresh>(words: usize) -> Cells<W> {
        Cells(Arc::new((0..INDEX_WORDS + words).map(|_| W::zero()).collect()))
    }

    /// An eventfd: remembers that it was rung until a sleeper collects it.
    #[derive(Clone)]
    struct Bell(Arc<(Mutex<bool>, Condvar)>);

    impl Bell {
        fn new() -> Bell {
            Bell(Arc::new((Mutex::new(false), Condvar::new())))
        }
        fn ring(&self) {
            *self.0.0.lock().unwrap() = true;
            self.0.1.notify_one();
        }
        fn sleep(&self) {
            let mut rung = self.0.0.lock().unwrap();
            while !*rung {
                rung = self.0.1.wait(rung).unwrap();
            }
            *rung = false;
        }
    }

    fn message(number: u64) -> [u8; 8] {
        (number + 100).to_le_bytes()
    }

    /// Sends `count` messages of one word; sleeps whenever there is no room.
    fn send_all<W: Word>(cells: Cells<W>, count: u64, mine: Bell, peers: Bell) {
        let mut producer = Producer::new(cells.clone());
        for number in 0..count {
            while !producer.push(&message(number), 8, false).unwrap() {
                let bells = Bells(cells.clone());
                bells.sender_may_sleep();
                W::full_fence();
                if !bells.room_for(producer.tail(), 2) {
                    mine.sleep();
                }
                bells.sender_awake();
            }
            if producer.must_wake_receiver() {
                peers.ring();
            }
        }
    }

    /// Receives `count` messages; sleeps whenever there is none.
    fn receive_all<W: Word>(cells: Cells<W>, count: u64, mine: Bell, peers: Bell) {
        let (mut consumer, mut buffer) = (Consumer::new(cells.clone()), Vec::new());
        for number in 0..count {
            while consumer.pop(&mut buffer, 0).unwrap().is_none() {
                let bells = Bells(cells.clone());
                bells.receiver_may_sleep();
                W::full_fence();
                if !bells.anything_for(consumer.head()) {
                    mine.sleep();
                }
                bells.receiver_awake();
            }
            assert_eq!(buffer[..8], message(number));
            if consumer.give_back() {
                peers.ring();
            }
        }
    }

    fn exchange<W: Fresh + Send + Sync>(count: u64, words: usize, preemptions: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.check(move || {
            let (cells, sender, receiver) = (cells::<W>(words), Bell::new(), Bell::new());
            let thread = {
                let (cells, mine, peers) = (cells.clone(), sender.clone(), receiver.clone());
                loom::thread::spawn(move || send_all(cells, count, mine, peers))
            };
            receive_all(cells, count, receiver, sender);
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_sleeping_receiver_misses_nothing() {
        exchange::<LoomWord>(2, 16, 3);
    }

    #[test]
    fn a_sender_without_room_and_a_receiver_without_messages_both_wake() {
        exchange::<LoomWord>(5, 8, 2);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn without_the_fences_loom_finds_the_lost_wake_up() {
        exchange::<Unfenced>(2, 16, 3);
    }

    /// The mailbox protocol of the unparker: the work is stored first, then the flag is read.
    #[test]
    fn an_unparked_worker_misses_no_work() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let (work, flag, bell) = (Arc::new(LoomWord::new(0)), Arc::new(LoomWord::new(0)), Bell::new());
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (work, flag, bell) = (work.clone(), flag.clone(), bell.clone());
                    loom::thread::spawn(move || {
                        work.fetch_add(1, Ordering::Relaxed);
                        if must_wake(&*flag) {
                            bell.ring();
                        }
                    })
                })
                .collect();
            while LoomWord::load(&work, Ordering::Relaxed) != 2 {
                announce_sleep(&*flag);
                fence(Ordering::SeqCst);
                if LoomWord::load(&work, Ordering::Relaxed) != 2 {
                    bell.sleep();
                }
                announce_awake(&*flag);
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
