//! The data about the papers: the files of `experiments/`, read and checked against each other.

use crate::error::DataError;
use crate::experiment::Experiment;
use crate::judge::Evaluators;
use crate::ledger::{How, Ledger};
use std::collections::BTreeMap;

include!(concat!(env!("OUT_DIR"), "/files.rs"));

const LEDGER: &str = "ledger.tsv";
const CLAIMS: &str = "claims.toml";
const SIMULATED: &str = "simulated.toml";
const TRACED: &str = "traced.toml";
const REMARKS: &str = "remarks.toml";
const LATER: &str = "later.toml";

#[derive(Clone, Debug)]
pub struct Library {
    pub ledger: Ledger,
    pub evaluators: Evaluators,
    /// Those that decide claims about machines that are not at hand, from rows of
    /// [`crate::simulated`].
    pub simulated: Evaluators,
    /// By id.
    pub experiments: Vec<Experiment>,
    /// Claim -> a paragraph with our explanation why it was not reproduced.
    pub remarks: BTreeMap<String, String>,
}

/// The claim or figure does not exist.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no {what} is called {id:?}{}; {hint}", near(.nearest))]
pub struct Unknown {
    pub what: &'static str,
    pub id: String,
    pub nearest: Vec<String>,
    pub hint: &'static str,
}

fn near(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!(": did you mean {}?", nearest.join(", ")) }
}

/// The most names that a message suggests.
const SUGGESTIONS: usize = 3;
/// A name with a lower similarity is not suggested.
const ALIKE: f64 = 0.75;

/// The names that are most similar to `id`.
fn nearest<'a>(id: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let lower = id.to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&lower, &name.to_lowercase());
    let mut all: Vec<(f64, &str)> =
        names.map(|name| (likeness(name), name)).filter(|n| n.0 >= ALIKE).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    all.into_iter().take(SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
}

impl Library {
    /// The library that this program was built with.
    ///
    /// # Errors
    /// A file that contradicts itself or another; a test ensures that there is none.
    pub fn built_in() -> Result<Library, DataError> {
        Library::of(FILES)
    }

    fn of(files: &[(&str, &str)]) -> Result<Library, DataError> {
        let file = |name: &str| {
            let found = files.iter().find(|f| f.0 == name).map(|f| f.1);
            found.ok_or_else(|| DataError::of(name, "missing"))
        };
        let figures = files.iter().filter(|f| {
            f.0.ends_with(".toml") && ![CLAIMS, SIMULATED, TRACED, REMARKS, LATER].contains(&f.0)
        });
        let remarks = toml::from_str::<BTreeMap<String, String>>(file(REMARKS)?);
        let now = figures.map(|(name, text)| Experiment::parse(name, text));
        let mut experiments = now.collect::<Result<Vec<_>, _>>()?;
        experiments.extend(Experiment::parse_later(LATER, file(LATER)?)?);
        let mut evaluators = Evaluators::parse(CLAIMS, file(CLAIMS)?)?;
        let traced = Evaluators::parse(TRACED, file(TRACED)?)?;
        let mut remarks = remarks.map_err(|e| DataError::of(REMARKS, e.to_string()))?;
        let own = traced.all.iter().filter_map(|e| Some((e.id.clone(), e.remark.clone()?)));
        remarks.extend(own);
        evaluators.join(traced).map_err(|what| DataError::of(TRACED, what))?;
        let library = Library {
            ledger: Ledger::parse(LEDGER, file(LEDGER)?)?,
            evaluators,
            simulated: Evaluators::parse(SIMULATED, file(SIMULATED)?)?,
            experiments,
            remarks,
        };
        library.check()?;
        Ok(library)
    }

    /// Checks that every name that a file mentions is defined in another, and that every claim is
    /// decided or has a missing feature.
    fn check(&self) -> Result<(), DataError> {
        let wrong = |file: &str, what: String| Err(DataError::of(file, what));
        let twice = |e: &&Experiment| self.experiments.iter().filter(|other| other.id == e.id).count() > 1;
        if let Some(e) = self.experiments.iter().find(twice) {
            return wrong(LATER, format!("{} stands twice", e.id));
        }
        for evaluator in &self.evaluators.all {
            if self.ledger.get(&evaluator.id).is_none() {
                return wrong(CLAIMS, format!("{} is not in the ledger", evaluator.id));
            }
            for id in &evaluator.experiments {
                match self.experiment(id) {
                    Err(unknown) => return wrong(CLAIMS, format!("{}: {unknown}", evaluator.id)),
                    Ok(e) if e.waits.is_some() => {
                        return wrong(
                            CLAIMS,
                            format!("{}: the experiment {id} cannot run yet", evaluator.id),
                        );
                    }
                    Ok(_) => {}
                }
            }
        }
        self.check_simulated()?;
        for id in self.evaluators.waits.keys().chain(self.remarks.keys()) {
            if self.ledger.get(id).is_none() {
                return wrong(CLAIMS, format!("{id} is not in the ledger"));
            }
        }
        if let Some(id) = self.remarks.keys().find(|id| self.evaluators.get(id).is_none()) {
            return wrong(
                REMARKS,
                format!("{id}: nothing decides this claim, so there is nothing to remark"),
            );
        }
        match self
            .ledger
            .claims
            .iter()
            .find(|c| self.evaluators.get(&c.id).is_none() && self.waits(&c.id).is_none())
        {
            Some(claim) => {
                wrong(CLAIMS, format!("{}: expected an evaluator, or what it waits for", claim.id))
            }
            None => Ok(()),
        }
    }

    /// Checks that the evaluators of simulated claims name claims of that kind, and simulated
    /// experiments.
    fn check_simulated(&self) -> Result<(), DataError> {
        let wrong = |what: String| Err(DataError::of(SIMULATED, what));
        let ids = self.simulated.all.iter().map(|e| &e.id).chain(self.simulated.waits.keys());
        for id in ids {
            if self.ledger.get(id).is_none_or(|claim| claim.how != How::Simulated) {
                return wrong(format!("{id} is no simulated claim of the ledger"));
            }
        }
        for evaluator in &self.simulated.all {
            for id in &evaluator.experiments {
                match self.experiment(id) {
                    Err(unknown) => return wrong(format!("{}: {unknown}", evaluator.id)),
                    Ok(e) if e.simulate.is_empty() => {
                        return wrong(format!("{}: the experiment {id} simulates nothing", evaluator.id));
                    }
                    Ok(_) => {}
                }
            }
        }
        Ok(())
    }

    /// The missing feature of an undecided claim; `None` if the claim can be decided or is unknown.
    pub fn waits(&self, id: &str) -> Option<&str> {
        if self.evaluators.get(id).is_some() {
            return None;
        }
        let own = self.evaluators.waits.get(id).map(String::as_str);
        own.or_else(|| self.ledger.get(id)?.how.waits_for())
    }

    /// # Errors
    /// The experiment does not exist; with the nearest names.
    pub fn experiment(&self, id: &str) -> Result<&Experiment, Unknown> {
        let names = self.experiments.iter().map(|e| e.id.as_str());
        self.experiments.iter().find(|e| e.id == id).ok_or_else(|| Unknown {
            what: "figure",
            id: id.into(),
            nearest: nearest(id, names),
            hint: "see atoll figures --list",
        })
    }

    /// # Errors
    /// The claim does not exist; with the nearest ids.
    pub fn claim(&self, id: &str) -> Result<&crate::ledger::Claim, Unknown> {
        let names = self.ledger.claims.iter().map(|c| c.id.as_str());
        self.ledger.get(id).ok_or_else(|| Unknown {
            what: "claim",
            id: id.into(),
            nearest: nearest(id, names),
            hint: "results/claims.md lists all of them",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> BTreeMap<&'static str, String> {
        let header = "id\tsource\tworkload\tsetup\tmetric\tclaim\texpected\thow\n";
        let line = |id: &str, how: &str| format!("{id}\ta\tb\tc\td\te\tf\t{how}\n");
        let ledger = [header.to_owned(), line("A-1", "counts"), line("A-2", "simulated")].concat();
        let claims =
            "[columns]\n[[claim]]\nid = \"A-1\"\nexperiments = [\"e\"]\nholds = [\"a > 1\"]\n[waits]\n";
        BTreeMap::from([
            (LEDGER, ledger),
            (CLAIMS, claims.to_owned()),
            (SIMULATED, "claim = []\n[columns]\n[waits]\n".to_owned()),
            (TRACED, "claim = []\n[columns]\n[waits]\n".to_owned()),
            (REMARKS, "A-1 = \"why\"".to_owned()),
            (LATER, "[[figure]]\nid = \"l\"\ncaption = \"c\"\nwaits = \"w\"".to_owned()),
            ("e.toml", "id = \"e\"\ncaption = \"c\"\nruns = [\"micro\"]".to_owned()),
        ])
    }

    fn library(files: &BTreeMap<&'static str, String>) -> Result<Library, DataError> {
        Library::of(&files.iter().map(|(name, text)| (*name, text.as_str())).collect::<Vec<_>>())
    }

    #[test]
    fn files_must_agree() {
        assert!(library(&files()).is_ok());
        for (name, from, to, part) in [
            (CLAIMS, "A-1", "A-3", "A-3 is not in the ledger"),
            (CLAIMS, "\"e\"", "\"f\"", "no figure is called \"f\""),
            (CLAIMS, "[waits]", "[waits]\n\"x\" = [\"A-9\"]", "A-9 is not in the ledger"),
            (LEDGER, "simulated", "counts", "A-2: expected an evaluator"),
            (SIMULATED, "[waits]", "[waits]\n\"x\" = [\"A-1\"]", "A-1 is no simulated claim"),
            (
                SIMULATED,
                "claim = []",
                "[[claim]]\nid = \"A-2\"\nexperiments = [\"e\"]\nholds = [\"a > 1\"]",
                "e simulates nothing",
            ),
            (TRACED, "[waits]", "[waits]\n\"x\" = [\"A-1\"]", "A-1 stands in another file"),
            (REMARKS, "A-1", "A-2", "A-2: nothing decides"),
            (REMARKS, "A-1 = ", "A-1 : ", "remarks.toml"),
            (CLAIMS, "[\"e\"]", "[\"l\"]", "cannot run yet"),
            (LATER, "waits = \"w\"", "runs = [\"micro\"]", "l: expected what it waits for"),
            (LATER, "\"l\"", "\"e\"", "e stands twice"),
        ] {
            let mut files = files();
            let text = files[name].replacen(from, to, 1);
            files.insert(name, text);
            let error = library(&files).unwrap_err().to_string();
            assert!(error.contains(part), "{part:?} in {error:?}");
        }
    }

    #[test]
    fn unknown_names_get_the_nearest() {
        let library = Library::built_in().unwrap();
        let error = library.claim("isl-24").unwrap_err();
        assert!(error.to_string().contains("did you mean ISL-024"), "{error}");
        assert!(library.experiment("vldbj11").unwrap_err().nearest.contains(&"vldbj-11".to_string()));
        assert!(library.claim("quite something else").unwrap_err().nearest.is_empty());
    }

    /// Counts from the crates `partition` and `cachesim` equal those of the thesis to the last
    /// digit.
    #[test]
    fn claims_about_repartitioning_and_schedulers_are_reproduced() {
        use crate::counting::What;
        use crate::row::{EXPERIMENT, Row};
        let library = Library::built_in().unwrap();
        let counted = |id: &str| {
            let e = library.experiment(id).unwrap();
            let is = |what| {
                let partition = matches!(what, What::Splits | What::Merges | What::Ages | What::Levels);
                partition || matches!(what, What::Hardware | What::Defaults | What::Teams | What::Places)
            };
            let nothing_else = e.runs.is_empty() && e.loads.is_empty() && !e.is_traced();
            nothing_else && e.counts.iter().all(|c| is(c.what))
        };
        let mut decided = 0;
        for evaluator in library.evaluators.all.iter().filter(|e| e.experiments.iter().all(|id| counted(id)))
        {
            let mut rows: Vec<Row> = Vec::new();
            for id in &evaluator.experiments {
                for count in &library.experiment(id).unwrap().counts {
                    let mut some = count.rows().unwrap();
                    some.iter_mut().for_each(|row| row.set(EXPERIMENT, id.as_str()));
                    rows.extend(some);
                }
            }
            let decision = library.evaluators.decide(evaluator, &rows.iter().collect::<Vec<_>>());
            assert_eq!(
                decision.verdict,
                crate::ClaimVerdict::Reproduced,
                "{}: {:?}",
                decision.id,
                decision.values
            );
            decided += 1;
        }
        assert!(decided >= 27, "{decided}");
    }

    #[test]
    fn at_least_forty_claims_can_be_decided() {
        let library = Library::built_in().unwrap();
        assert!(library.evaluators.all.len() >= 40, "{}", library.evaluators.all.len());
    }
}
