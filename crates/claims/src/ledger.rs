//! The ledger: every claim of the papers that we found, one per line, with the result that we
//! accept as its reproduction.
//!
//! ```text
//! id <tab> source <tab> workload <tab> setup <tab> metric <tab> claim <tab> expected <tab> how
//! ```
//!
//! The ledger is written by hand, so it is checked like any other input: columns, words, unique
//! ids.

use crate::error::DataError;
use std::fmt;

const HEADER: [&str; 8] = ["id", "source", "workload", "setup", "metric", "claim", "expected", "how"];

/// The means to decide a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// A run on the present machine.
    MeasuredHere,
    /// Counting, with the same result on every machine.
    Counts,
    /// A model of the papers' machines.
    Simulated,
    /// Traces of instructions and data, replayed on modelled caches.
    TraceSim,
    /// Hardware counters.
    Hardware,
}

impl How {
    pub const ALL: [How; 5] = [How::MeasuredHere, How::Counts, How::Simulated, How::TraceSim, How::Hardware];

    /// The name in the ledger and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            How::MeasuredHere => "measured-here",
            How::Counts => "counts",
            How::Simulated => "simulated",
            How::TraceSim => "trace-sim",
            How::Hardware => "hardware",
        }
    }

    pub fn parse(word: &str) -> Option<How> {
        How::ALL.into_iter().find(|how| how.name() == word)
    }

    /// The feature that such a claim waits for by default; `None` if each claim needs its own
    /// reason.
    pub const fn waits_for(self) -> Option<&'static str> {
        match self {
            How::MeasuredHere | How::Counts => None,
            How::Simulated => Some("needs one of the papers' machines: see claims --how simulated"),
            How::TraceSim => Some("no experiment traces it yet"),
            How::Hardware => Some(
                "needs events of the processor that are not counted: stalled cycles, lines that cores share, traffic between sockets",
            ),
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One line of the ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub id: String,
    /// Paper and section.
    pub source: String,
    pub workload: String,
    pub setup: String,
    pub metric: String,
    /// The claim in our words.
    pub claim: String,
    /// The paper's result, and the result that we accept.
    pub expected: String,
    pub how: How,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ledger {
    pub claims: Vec<Claim>,
}

impl Ledger {
    /// # Errors
    /// The first wrong line, with the expected text. `file` is its name for messages.
    pub fn parse(file: &str, text: &str) -> Result<Ledger, DataError> {
        let wrong = |line: usize, what: String| DataError::at(file, line + 1, what);
        let mut lines = text.lines().enumerate();
        let header = lines.next().map(|(_, line)| line.split('\t').collect::<Vec<_>>());
        if header.as_deref() != Some(&HEADER[..]) {
            return Err(wrong(0, format!("expected the columns {}", HEADER.join(", "))));
        }
        let mut claims: Vec<Claim> = Vec::new();
        for (number, line) in lines {
            let claim = claim(line).map_err(|what| wrong(number, what))?;
            if claims.iter().any(|c| c.id == claim.id) {
                return Err(wrong(number, format!("{} stands twice: expected each id once", claim.id)));
            }
            claims.push(claim);
        }
        Ok(Ledger { claims })
    }

    pub fn get(&self, id: &str) -> Option<&Claim> {
        self.claims.iter().find(|c| c.id == id)
    }
}

fn claim(line: &str) -> Result<Claim, String> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [id, source, workload, setup, metric, claim, expected, how] = cells[..] else {
        return Err(format!("{} columns; expected {}, separated by tabs", cells.len(), HEADER.len()));
    };
    let is_id = id.split_once('-').is_some_and(|(prefix, number)| {
        !prefix.is_empty()
            && prefix.bytes().all(|b| b.is_ascii_uppercase())
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
    });
    if !is_id {
        return Err(format!("{id:?} is no id; expected one such as ISL-001"));
    }
    if let Some(i) = cells.iter().position(|cell| cell.trim().is_empty()) {
        return Err(format!("{id}: nothing in the column {}", HEADER[i]));
    }
    let how = How::parse(how).ok_or_else(|| {
        format!("{id}: {how:?} in the column how; expected one of {}", How::ALL.map(How::name).join(", "))
    })?;
    let [id, source, workload, setup, metric, claim, expected] =
        [id, source, workload, setup, metric, claim, expected].map(str::to_owned);
    Ok(Claim { id, source, workload, setup, metric, claim, expected, how })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "id\tsource\tworkload\tsetup\tmetric\tclaim\texpected\thow\nA-1\tb\tc\td\te\tf\tg\tcounts";

    #[test]
    fn a_line_is_a_claim() {
        let ledger = Ledger::parse("l", GOOD).unwrap();
        assert_eq!(ledger.get("A-1").map(|c| (c.source.as_str(), c.how)), Some(("b", How::Counts)));
        assert!(ledger.get("A-2").is_none());
    }

    #[test]
    fn every_way_to_be_wrong_is_named_with_its_line() {
        for (from, to, part) in [
            ("id\t", "name\t", "l:1"),
            ("\tcounts", "\tguessed", "guessed"),
            ("\tg\t", "\t", "7 columns"),
            ("A-1", "a-1", "ISL-001"),
            ("\te\t", "\t \t", "metric"),
            ("counts", "counts\nA-1\tb\tc\td\te\tf\tg\tcounts", "l:3: A-1 stands twice"),
        ] {
            let error = Ledger::parse("l", &GOOD.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(part), "{part:?} in {error:?}");
        }
    }

    #[test]
    fn every_word_parses_back() {
        assert!(How::ALL.into_iter().all(|how| How::parse(how.name()) == Some(how)));
    }
}
