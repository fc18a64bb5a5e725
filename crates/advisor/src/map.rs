//! A map: which deployment wins at each point of two axes of a workload.

use crate::error::AdviceError;
use crate::search::Found;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// An axis and its values, ascending.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Axis {
    pub name: String,
    pub values: Vec<f64>,
}

/// The winner at a point.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    pub design: String,
    pub islands: usize,
    /// The deployment in words.
    pub choice: String,
    pub tps: f64,
    /// The lead over the best deployment with another design or number of islands, as a share;
    /// below 0 if that one is ahead within a tie. `None` if there is no other.
    pub margin: Option<f64>,
}

impl Cell {
    fn of(found: &Found) -> Cell {
        let best = &found.ranking[0];
        let other = found.ranking[1..].iter().filter(|r| {
            r.candidate.islands != best.candidate.islands || r.candidate.design != best.candidate.design
        });
        let next = other.map(|r| r.score.mid).max_by(f64::total_cmp);
        Cell {
            design: best.candidate.design.clone(),
            islands: best.candidate.islands,
            choice: best.candidate.to_string(),
            tps: best.prediction.tps.mid,
            margin: next.map(|next| best.score.mid / next - 1.0),
        }
    }

    /// Design and number of islands: deployments with both equal are one winner.
    pub fn short(&self) -> String {
        format!("{} x{}", self.design, self.islands)
    }
}

/// Winners over two axes: `cells[j][i]` is at `y.values[j]` and `x.values[i]`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Map {
    pub machine: String,
    pub workload: String,
    pub x: Axis,
    pub y: Axis,
    pub cells: Vec<Vec<Cell>>,
}

impl Map {
    /// Asks for advice at each point; `advise` gets the values of `x` and `y`.
    ///
    /// # Errors
    /// The first point without advice.
    pub fn draw<E: From<AdviceError>>(
        (machine, workload): (&str, &str),
        x: Axis,
        y: Axis,
        mut advise: impl FnMut(f64, f64) -> Result<Found, E>,
    ) -> Result<Map, E> {
        if x.values.is_empty() || y.values.is_empty() {
            return Err(AdviceError::NoCandidate("a map needs values of both axes".to_owned()).into());
        }
        let mut cells = Vec::new();
        for &at_y in &y.values {
            let row: Result<Vec<Cell>, E> =
                x.values.iter().map(|&at_x| Ok(Cell::of(&advise(at_x, at_y)?))).collect();
            cells.push(row?);
        }
        Ok(Map { machine: machine.to_owned(), workload: workload.to_owned(), x, y, cells })
    }

    /// The winners and the number of points that each has, the most frequent first.
    pub fn winners(&self) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        self.cells.iter().flatten().for_each(|cell| *counts.entry(cell.short()).or_default() += 1);
        let mut winners: Vec<(String, usize)> = counts.into_iter().collect();
        winners.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        winners
    }
}

/// Letters of the winners in the order of [`Map::winners`]; the lead in per cent beside each.
impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let winners = self.winners();
        let letter = |cell: &Cell| {
            let at = winners.iter().position(|(short, _)| *short == cell.short()).unwrap_or(0);
            char::from(b'A' + (at % 26) as u8)
        };
        writeln!(
            f,
            "{} on {}: the winner, and its lead over another size or design in %",
            self.workload, self.machine
        )?;
        write!(f, "{:>10} ", format!("{} \\ {}", self.y.name, self.x.name))?;
        self.x.values.iter().try_for_each(|x| write!(f, "{x:>7}"))?;
        for (y, row) in self.y.values.iter().zip(&self.cells).rev() {
            let width = format!("{} \\ {}", self.y.name, self.x.name).len().max(10);
            write!(f, "\n{y:>width$} ")?;
            for cell in row {
                let lead = cell.margin.map_or("-".to_owned(), |m| format!("{:.0}", m * 100.0));
                write!(f, "{:>7}", format!("{} {lead}", letter(cell)))?;
            }
        }
        for (at, (short, count)) in winners.iter().enumerate() {
            let letter = char::from(b'A' + (at % 26) as u8);
            write!(f, "\n{letter}  {short:<24} {count} of {} points", self.cells.iter().flatten().count())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predictor::{Interval, Prediction};
    use crate::search::{SearchOptions, search};
    use crate::space::tests::candidate;
    use deploysim::Channel;

    fn axis(name: &str, values: &[f64]) -> Axis {
        Axis { name: name.into(), values: values.into() }
    }

    /// Two islands win while x + y is below 50.
    fn advise(x: f64, y: f64) -> Result<Found, AdviceError> {
        let all = [candidate("occ", 1, 2, None), candidate("serial", 2, 2, Some(Channel::Shm))];
        let fast = |c: &crate::Candidate| {
            let tps = if (x + y < 50.0) == (c.islands == 2) { 200.0 } else { 100.0 };
            let tps = Interval::around(tps, 0.1);
            Ok(Prediction { tps, p99_us: None, limits: vec![], parts: vec![] })
        };
        search(&all, &fast, None, &SearchOptions::default())
    }

    #[test]
    fn each_point_has_its_winner() {
        let (x, y) = (axis("multisite", &[0.0, 20.0, 60.0]), axis("skew", &[0.0, 40.0]));
        let map = Map::draw(("quad", "micro"), x, y, advise).unwrap();
        let islands: Vec<Vec<usize>> =
            map.cells.iter().map(|row| row.iter().map(|c| c.islands).collect()).collect();
        assert_eq!(islands, [[2, 2, 1], [2, 1, 1]]);
        assert_eq!(map.cells[0][0].margin, Some(1.0));
        assert_eq!(map.winners(), [("occ x1".into(), 3), ("serial x2".into(), 3)]);
        let text = map.to_string();
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[2].trim_start().starts_with("40"), "the greatest y on top: {text}");
        assert!(text.contains("B 100") && text.contains("serial x2"), "{text}");
    }

    #[test]
    fn a_point_without_advice_is_an_error() {
        let (x, y) = (axis("multisite", &[0.0]), axis("skew", &[0.0]));
        let none = |_: f64, _: f64| Err(AdviceError::NoCandidate("no latencies".into()));
        assert!(Map::draw(("quad", "micro"), x.clone(), y, none).is_err());
        assert!(Map::draw(("quad", "micro"), x, axis("skew", &[]), advise).is_err());
    }
}
