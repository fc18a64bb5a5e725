//! A script of changes of the load during a measurement: `--phases FILE`.
//!
//! ```text
//! # Figure 4.1: at ten seconds half of the requests turn to a third of the subscribers.
//! 10s  hot 50% of requests to 30% of keys
//! 20s  hot 50/30@40          the same, from 40 % of the keys on
//! 20s  rate 2000..8000/5s    lines of one time are one change
//! 30s  hot off
//! ```
//!
//! A line holds a time, counted from the start of the first measured window, and one of: `hot
//! RANGE` or `hot off`, `rate RATE` (open loop), `multisite PCT`, `skew S`, `mix NAME` (another mix
//! over the same data). Times must not decrease. Text after a `#` is a comment.

use crate::subject::Subject;
use std::fmt;
use std::time::Duration;
use traffic::{LoadChange, LoadModel, Rate, parse_time};
use workload::{Hot, WorkloadSpec};

/// The first wrong line: the file, the line, and the error with the expected form.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct PhaseError {
    file: String,
    line: usize,
    what: String,
}

/// A change that a line describes.
#[derive(Clone, PartialEq, Debug)]
enum What {
    Hot(Option<Hot>),
    Rate(Rate),
    Multisite(f64),
    Skew(f64),
    Mix(String),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Hot(Some(hot)) => write!(f, "hot {hot}"),
            What::Hot(None) => write!(f, "hot off"),
            What::Rate(rate) => write!(f, "rate {rate}"),
            What::Multisite(percent) => write!(f, "multisite {percent}"),
            What::Skew(skew) => write!(f, "skew {skew}"),
            What::Mix(name) => write!(f, "mix {name}"),
        }
    }
}

/// A line of a script.
#[derive(Clone, PartialEq, Debug)]
struct Line {
    number: usize,
    at: Duration,
    what: What,
}

/// A script as it was written; its meaning depends on the workload.
#[derive(Clone, PartialEq, Debug)]
pub struct Phases {
    file: String,
    lines: Vec<Line>,
}

/// The hint in the message about a wrong line.
const EXPECTED: &str = "expected a time and one of hot, rate, multisite, skew, mix, such as: 10s hot 50/30";

impl Phases {
    /// `file` is only used in messages.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(file: &str, text: &str) -> Result<Phases, PhaseError> {
        let mut lines: Vec<Line> = Vec::new();
        for (i, text) in text.lines().enumerate() {
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let wrong = |what| PhaseError { file: file.into(), line: i + 1, what };
            let (at, what) = parse_line(text).map_err(wrong)?;
            if lines.last().is_some_and(|last| last.at > at) {
                return Err(wrong(format!(
                    "{text:?} lies before the line above it; expected times that do not go back"
                )));
            }
            lines.push(Line { number: i + 1, at, what });
        }
        Ok(Phases { file: file.into(), lines })
    }

    /// The whole script in one line, as rows contain it: `10s hot 50/30, 20.5s hot off`.
    pub fn script(&self) -> String {
        let line = |l: &Line| format!("{}s {}", l.at.as_secs_f64(), l.what);
        self.lines.iter().map(line).collect::<Vec<_>>().join(", ")
    }

    /// The changes with their times, for requests that start as in `subject`.
    ///
    /// # Errors
    /// The first line that does not fit the workload or the load model.
    pub fn changes(
        &self,
        subject: &Subject,
        model: &LoadModel,
    ) -> Result<Vec<LoadChange<WorkloadSpec>>, PhaseError> {
        let mut spec = subject.spec().clone();
        let mut changes: Vec<LoadChange<WorkloadSpec>> = Vec::new();
        for line in &self.lines {
            let wrong = |what| PhaseError { file: self.file.clone(), line: line.number, what };
            let (mut rate, mut requests) = (None, None);
            match &line.what {
                What::Rate(_) if !matches!(model, LoadModel::Open { .. }) => {
                    return Err(wrong(
                        "rate: only an open loop has one; add --load-model open --rate TPS".into(),
                    ));
                }
                What::Rate(new) => rate = Some(*new),
                other => {
                    spec = changed(&spec, other, subject).map_err(wrong)?;
                    requests = Some(spec.clone());
                }
            }
            let at_ns = line.at.as_nanos() as u64;
            match changes.last_mut().filter(|last| last.at_ns == at_ns) {
                Some(last) => {
                    (last.rate, last.requests) = (rate.or(last.rate), requests.or(last.requests.take()));
                }
                None => changes.push(LoadChange { at_ns, rate, requests }),
            }
        }
        Ok(changes)
    }
}

fn parse_line(text: &str) -> Result<(Duration, What), String> {
    let expected = || format!("{text:?}: {EXPECTED}");
    let (time, rest) = text.split_once(char::is_whitespace).ok_or_else(expected)?;
    let at = match time {
        "0" | "0s" => Duration::ZERO,
        _ => parse_time(time)?,
    };
    let (word, value) = rest.trim().split_once(char::is_whitespace).ok_or_else(expected)?;
    let value = value.trim();
    let number = || value.parse::<f64>().map_err(|_| format!("{word} {value:?}: expected a number"));
    let what = match word {
        "hot" if value == "off" => What::Hot(None),
        "hot" => What::Hot(Some(value.parse()?)),
        "rate" => What::Rate(value.parse()?),
        "multisite" => What::Multisite(number()?),
        "skew" => What::Skew(number()?),
        "mix" => What::Mix(value.into()),
        _ => return Err(expected()),
    };
    Ok((at, what))
}

/// `spec` after a change, checked against the loaded data.
fn changed(spec: &WorkloadSpec, what: &What, subject: &Subject) -> Result<WorkloadSpec, String> {
    let mut new = spec.clone();
    match what {
        What::Hot(hot) => new.hot = *hot,
        What::Multisite(per_cent) => new.multisite = Some(*per_cent),
        What::Skew(skew) => new.skew = Some(*skew),
        What::Mix(name) => new.name.clone_from(name),
        What::Rate(_) => {}
    }
    let checked = Subject::new(new.clone()).map_err(|e| e.to_string())?;
    if !new.is_kin_of(subject.spec()) || checked.data_name() != subject.data_name() {
        return Err(format!(
            "mix {}: it has other data than {}; expected another mix over the same",
            new.name,
            subject.spec().name
        ));
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> LoadModel {
        let rate = Rate::constant(10.0).unwrap();
        LoadModel::Open { rate, arrivals: traffic::Arrivals::Poisson }
    }

    fn subject(name: &str) -> Subject {
        Subject::new(WorkloadSpec::new(name, 2)).unwrap()
    }

    #[test]
    fn lines_of_one_time_are_one_change_and_what_was_set_stays_set() {
        let text = "# head\n\n0 multisite 5\n10s hot 50% of requests to 30% of keys # Fig 4.1\n10s rate 5..9/1s\n20.5s hot off\n";
        let phases = Phases::parse("p", text).unwrap();
        let changes = phases.changes(&subject("micro"), &open()).unwrap();
        let times: Vec<f64> = changes.iter().map(|c| Duration::from_nanos(c.at_ns).as_secs_f64()).collect();
        assert_eq!(times, [0.0, 10.0, 20.5]);
        let second = changes[1].requests.as_ref().unwrap();
        assert_eq!((second.multisite, second.hot), (Some(5.0), Some("50/30".parse().unwrap())));
        assert_eq!(changes[1].rate, Some("5..9/1s".parse().unwrap()));
        assert!(changes[2].requests.as_ref().is_some_and(|s| s.hot.is_none() && s.multisite == Some(5.0)));
        let script = "0s multisite 5, 10s hot 50/30, 10s rate 5..9/1s, 20.5s hot off";
        assert_eq!(phases.script(), script);
        assert_eq!(Phases::parse("again", &script.replace(", ", "\n")).unwrap().lines.len(), 4);
    }

    #[test]
    fn another_mix_over_the_same_data_is_a_phase() {
        let phases = Phases::parse("p", "1s mix tpcc-payment\n2s mix tpcc").unwrap();
        let names = phases.changes(&subject("tpcc"), &LoadModel::Closed).unwrap();
        let names: Vec<String> = names.into_iter().map(|c| c.requests.unwrap().name).collect();
        assert_eq!(names, ["tpcc-payment", "tpcc"]);
    }

    #[test]
    fn a_wrong_line_is_refused_with_file_and_line() {
        for (text, line, word) in [
            ("10s", 1, "expected a time"),
            ("\n10s hot", 2, "expected a time"),
            ("# x\n\n10 parsecs hot 50/30", 3, "expected a time"),
            ("5q hot 50/30", 1, "5q"),
            ("1s hot 50/0", 1, "keys"),
            ("1s hot warm", 1, "50/30"),
            ("1s rate -5", 1, "above 0"),
            ("1s rate NaN", 1, "above 0"),
            ("1s skew steep", 1, "number"),
            ("2s skew 1\n1s skew 0", 2, "go back"),
            ("1s temperature 9", 1, "expected a time"),
        ] {
            let error = Phases::parse("dir/p.txt", text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("dir/p.txt:{line}: ")) && error.contains(word),
                "{text}: {error}"
            );
        }
        for (text, workload, word) in [
            ("1s rate 5", "micro", "--rate"),
            ("1s multisite 101", "micro", "101"),
            ("1s skew 0.5", "tpcb", "skew"),
            ("1s skew 1\n2s hot 50/30", "micro", "hot"),
            ("1s hot 50/30", "tpcc", "hot"),
            ("1s mix tatp", "tpcc", "data"),
            ("1s mix nothing", "tpcc", "nothing"),
        ] {
            let phases = Phases::parse("p", text).unwrap();
            let error = phases.changes(&subject(workload), &LoadModel::Closed).unwrap_err().to_string();
            let line = text.lines().count();
            assert!(error.starts_with(&format!("p:{line}: ")) && error.contains(word), "{text}: {error}");
        }
    }
}
