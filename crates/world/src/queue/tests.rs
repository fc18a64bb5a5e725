//! The queue on each of its ways: errors, short reads, and operations that are under way at the
//! end.

use super::*;
use crate::{Deed, Files, Intervention, Open, memory, real, watched};
use std::io::ErrorKind;
use std::path::Path;

#[repr(align(4096))]
struct Block([u8; 4096]);

/// Polls until `n` operations have ended.
fn take(queue: &IoQueue, n: usize) -> Vec<Done> {
    let mut done = Vec::new();
    while done.len() < n {
        queue.wait(Duration::from_secs(5));
        queue.poll(&mut done);
    }
    done
}

fn read_all(queue: &IoQueue, file: &Arc<dyn File>, blocks: &mut [Block]) -> Vec<Done> {
    for (n, block) in blocks.iter_mut().enumerate() {
        // SAFETY: the blocks are not read until `take` below has seen every operation end.
        unsafe { queue.read(file, block.0.as_mut_ptr(), 4096, n as u64 * 4096, n as u64) };
    }
    assert_eq!(queue.pending(), blocks.len());
    take(queue, blocks.len())
}

fn blocks(n: usize) -> Vec<Block> {
    (0..n).map(|_| Block([0; 4096])).collect()
}

fn round_trip(files: &Arc<dyn Files>, path: &Path, means: Means) {
    let (file, _) = files.open_direct(path, Open::Create).unwrap();
    let queue = IoQueue::new(8, means).unwrap();
    let written: Vec<Block> = (0..50).map(|n| Block([n as u8; 4096])).collect();
    let writes: Vec<(&[u8], u64)> =
        written.iter().enumerate().rev().map(|(n, b)| (&b.0[..], n as u64 * 4096)).collect();
    queue.write_all(&file, &writes).unwrap();
    assert_eq!(file.len().unwrap(), 50 * 4096);
    let mut read = blocks(50);
    let mut done = read_all(&queue, &file, &mut read);
    done.sort_by_key(|d| d.token);
    for (n, one) in done.into_iter().enumerate() {
        assert_eq!((one.token, one.result.unwrap()), (n as u64, 4096));
        assert!(read[n].0.iter().all(|&b| b == n as u8));
    }
    assert_eq!((queue.pending(), queue.ready()), (0, false));
}

#[test]
fn what_was_written_is_read_on_every_way() {
    let folder = tempfile::tempdir().unwrap();
    for means in [Means::Best, Means::Threads] {
        round_trip(&memory(), Path::new("f"), means);
        round_trip(&real(), &folder.path().join(format!("{means:?}")), means);
        round_trip(
            &watched(real(), |_, _| Intervention::Do),
            &folder.path().join(format!("w{means:?}")),
            means,
        );
    }
    assert_eq!(IoQueue::new(8, Means::Threads).unwrap().means(), Means::Threads);
}

#[test]
fn a_read_beyond_the_end_is_short_and_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for means in [Means::Best, Means::Threads] {
        let file = real().open(&folder.path().join("f"), Open::Create).unwrap();
        file.write_all_at(&[7; 6000], 0).unwrap();
        let queue = IoQueue::new(8, means).unwrap();
        let mut read = blocks(3);
        let mut done = read_all(&queue, &file, &mut read);
        done.sort_by_key(|d| d.token);
        let lengths: Vec<usize> = done.into_iter().map(|d| d.result.unwrap()).collect();
        assert_eq!(lengths, [4096, 6000 - 4096, 0]);
    }
}

#[test]
fn errors_come_with_the_files_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    real().open(&path, Open::Create).unwrap();
    for means in [Means::Best, Means::Threads] {
        // Open for reading only: the kernel refuses the write.
        let file = real().open(&path, Open::Read).unwrap();
        let error = IoQueue::new(8, means).unwrap().write_all(&file, &[(&[1; 10], 0)]).unwrap_err();
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
        let files = watched(real(), |_, deed| match deed {
            Deed::Read { offset: 4096, .. } => Intervention::Fail(ErrorKind::BrokenPipe),
            _ => Intervention::Do,
        });
        let file = files.open(&path, Open::ReadWrite).unwrap();
        let queue = IoQueue::new(8, means).unwrap();
        let done = read_all(&queue, &file, &mut blocks(2));
        for one in done {
            match one.token {
                1 => assert_eq!(one.result.unwrap_err().kind(), ErrorKind::BrokenPipe),
                _ => assert_eq!(one.result.unwrap(), 0),
            }
        }
    }
}

/// A thread that ends cancels its operations; the queue repeats them.
#[test]
fn what_an_ended_thread_had_asked_for_is_done_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = real().open_direct(&folder.path().join("f"), Open::Create).unwrap();
    let queue = IoQueue::new(64, Means::Best).unwrap();
    let written = blocks(64);
    queue
        .write_all(
            &file,
            &written.iter().enumerate().map(|(n, b)| (&b.0[..], n as u64 * 4096)).collect::<Vec<_>>(),
        )
        .unwrap();
    let mut read = blocks(64);
    std::thread::scope(|s| {
        s.spawn(|| {
            for (n, block) in read.iter_mut().enumerate() {
                // SAFETY: the blocks outlive the queue's work on them: `take` below waits for all.
                unsafe { queue.read(&file, block.0.as_mut_ptr(), 4096, n as u64 * 4096, n as u64) };
            }
            queue.flush();
        });
    });
    assert!(take(&queue, 64).into_iter().all(|d| d.result.is_ok_and(|n| n == 4096)));
}

#[test]
fn dropping_the_queue_waits_for_what_is_under_way() {
    let files = watched(memory(), |_, _| Intervention::Do);
    drop(files);
    let folder = tempfile::tempdir().unwrap();
    let slow = watched(real(), |_, deed| {
        if matches!(deed, Deed::Read { .. }) {
            std::thread::sleep(Duration::from_millis(30));
        }
        Intervention::Do
    });
    let file = slow.open(&folder.path().join("f"), Open::Create).unwrap();
    file.write_all_at(&[9; 4096], 0).unwrap();
    let mut block = Block([0; 4096]);
    let queue = IoQueue::new(1, Means::Best).unwrap();
    // SAFETY: the block is read only after the queue is gone.
    unsafe { queue.read(&file, block.0.as_mut_ptr(), 4096, 0, 1) };
    drop(queue);
    assert!(block.0.iter().all(|&b| b == 9));
}

#[test]
fn many_threads_share_a_queue() {
    for means in [Means::Best, Means::Threads] {
        let folder = tempfile::tempdir().unwrap();
        let file = real().open(&folder.path().join("f"), Open::Create).unwrap();
        file.write_all_at(&[5; 64 * 4096], 0).unwrap();
        let queue = IoQueue::new(16, means).unwrap();
        let ended = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for t in 0..4u64 {
                let (queue, file, ended) = (&queue, &file, &ended);
                s.spawn(move || {
                    let mut mine = blocks(64);
                    for (n, block) in mine.iter_mut().enumerate() {
                        let token = t << 32 | n as u64;
                        // SAFETY: no thread leaves the loop below, or drops `mine`, before all 256
                        // have ended.
                        unsafe { queue.read(file, block.0.as_mut_ptr(), 4096, n as u64 * 4096, token) };
                    }
                    let mut done = Vec::new();
                    while ended.load(Ordering::SeqCst) < 4 * 64 {
                        queue.wait(Duration::from_millis(1));
                        ended.fetch_add(queue.poll(&mut done), Ordering::SeqCst);
                    }
                    assert!(done.iter().all(|d| matches!(d.result, Ok(4096))));
                    assert!(mine.iter().all(|b| b.0 == [5; 4096]));
                });
            }
        });
    }
}
