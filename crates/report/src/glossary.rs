//! The meaning of table columns and chart parts, in a line each: for tooltips, and for screens
//! without a pointer.

/// The explanation of a column or part; `None` for a name that explains itself.
pub fn explain(name: &str) -> Option<&'static str> {
    WORDS.iter().find(|(word, _)| *word == name).map(|(_, text)| *text)
}

const WORDS: &[(&str, &str)] = &[
    ("per second", "Committed transactions a second, of the median repetition."),
    (
        "spread %",
        "From the slowest to the fastest repetition, as a share of the median one. Differences within it are none.",
    ),
    (
        "noise %",
        "The share of the machine's processor time that other programs, or other virtual machines, took while this row was measured.",
    ),
    ("distributed %", "Transactions that touched more than one instance."),
    (
        "user rollbacks",
        "Transactions that the workload itself rolls back, as its definition asks for: no failures.",
    ),
    (
        "conflicts",
        "Tries that ended without effect for any other reason: deadlock, lock time-out, failed validation, a lost instance. They are tried again.",
    ),
    ("messages", "Messages between instances for each committed transaction."),
    ("log bytes", "Bytes of the log for each committed transaction."),
    ("consistent", "Whether every consistency condition of the workload held at the end."),
    (
        "tpmC",
        "NewOrders a minute, rolled-back ones included. By the standard only with its keying and think times (--think standard).",
    ),
    ("of ceiling %", "tpmC as a share of the most that so many terminals can bring with their pauses."),
    ("p50 µs", "Half of the transactions took no longer."),
    ("p95 µs", "95 of 100 transactions took no longer."),
    ("p99 µs", "99 of 100 transactions took no longer."),
    ("p99.9 µs", "999 of 1000 transactions took no longer."),
    ("share %", "Of all transactions that were carried out, rollbacks that the workload asks for included."),
    (
        "against the next",
        "Throughput over that of the fastest deployment that is slower beyond spread and noise.",
    ),
    (
        "against one shared instance",
        "Throughput over that of a single instance of design conventional over all cores.",
    ),
    ("slowest", "The slowest repetition."),
    ("fastest", "The fastest repetition."),
    ("execution", "Procedures, index and heap operations."),
    ("locking", "Asking for locks and giving them back; waiting for one is not in it."),
    ("latching", "Taking and leaving page latches, spinning included."),
    ("logging", "Building log records and putting them into the log buffer."),
    ("communication", "Encoding, sending, polling for and decoding messages."),
    ("management", "Begin, commit, two-phase commit, rollback, tasks, the worker's loop."),
    ("idle", "Rounds of a worker's loop that found nothing to do, and sleep."),
    (
        "turn",
        "Ready, but the worker runs another client's transaction: with 4 closed-loop clients a worker that is 3 of 4 parts of the time by itself.",
    ),
    ("lock", "A lock that another transaction holds."),
    ("log", "Log records to be as safe as the durability mode promises."),
    ("reply", "Results of steps at another instance or worker."),
    ("decision", "Votes and decisions of two-phase commit."),
    ("page", "A page that is being read."),
    ("retry", "The pause before the next try."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_explained_once_in_a_sentence() {
        for (at, (word, text)) in WORDS.iter().enumerate() {
            assert!(text.ends_with('.') && text.len() < 200, "{word}: {text}");
            assert!(WORDS[..at].iter().all(|(other, _)| other != word), "{word} twice");
        }
        assert!(explain("spread %").is_some() && explain("design").is_none());
    }
}
