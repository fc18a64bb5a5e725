//! The first screen of a plan: at most 20 lines that tell a person which command to run, and why.

use super::{Entry, Plan};
use crate::objective::time;
use crate::search::Basis;
use std::fmt;

/// Deployments in the table.
const ROWS: usize = 6;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = &self.machine;
        let options = self.workload.options.iter().map(|(name, value)| format!(", {name} {value}"));
        let packages = if m.packages == 1 { String::new() } else { format!(" in {} packages", m.packages) };
        writeln!(
            f,
            "{}{} on {}, {} cores{packages}; objective {}",
            self.workload.name,
            options.collect::<String>(),
            m.name,
            m.cores,
            self.objective
        )?;
        let choice = self.choice();
        writeln!(f, "deploy   {}", choice.candidate)?;
        writeln!(f, "         atoll {}", self.bench_words().join(" "))?;
        writeln!(f, "expect   {}", expected(choice))?;
        if let Some(limit) = choice.limits.first() {
            writeln!(f, "limit    {}, {:.0} % in use{}", limit.resource, limit.share * 100.0, self.costs())?;
        }
        writeln!(f, "lead     {}", self.lead())?;
        for flip in self.break_even.iter().take(2) {
            let at = number(flip.at);
            writeln!(f, "flips    {} wins below {} {at}, {} above", flip.below, flip.axis, flip.above)?;
        }
        self.table(f)?;
        self.origin(f)
    }
}

impl Plan {
    fn costs(&self) -> String {
        let choice = self.choice().prediction();
        let busy = choice.dominating().into_iter().filter(|part| part.name != "idle").take(3);
        let parts: Vec<String> = busy.map(|part| format!("{} {:.2}us", part.name, part.ns / 1e3)).collect();
        if parts.is_empty() { String::new() } else { format!("; a transaction costs {}", parts.join(", ")) }
    }

    fn lead(&self) -> String {
        let (Some(next), Some(margin)) = (self.runner_up(), self.margin()) else {
            return "no other deployment fits".to_owned();
        };
        let by = margin * 100.0;
        match self.is_tie() {
            true if margin >= 0.0 => format!("{by:.0} % over {}: within the error, a tie", next.candidate),
            true => format!(
                "a tie with {} ({by:+.0} %): chosen for fewer instances or the default design",
                next.candidate
            ),
            false => format!("{by:.0} % over {}", next.candidate),
        }
    }

    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.ranking.len().saturating_sub(ROWS);
        writeln!(f, "\n{:>10}  {:>19}  {:>7}  by        deployment", "tps", "from .. to", "p99")?;
        for entry in self.ranking.iter().take(ROWS) {
            let range = format!("{} .. {}", rate(entry.tps.low), rate(entry.tps.high));
            let p99 = entry.p99_us.map_or("-".to_owned(), time);
            let by = basis(entry.basis);
            writeln!(f, "{:>10}  {range:>19}  {p99:>7}  {by:<8}  {}", rate(entry.tps.mid), entry.candidate)?;
        }
        if left > 0 {
            writeln!(f, "{:>10}  and {left} more, see --json or the plan file", "")?;
        }
        Ok(())
    }

    fn origin(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.search;
        write!(f, "found by {} estimates and {} simulations, profile {}", s.screened, s.refined, s.profile)?;
        match &s.calibrated {
            None => write!(f, ", not calibrated on this machine")?,
            Some(cells) => write!(f, ", calibrated by {cells}")?,
        }
        if !s.borrowed.is_empty() {
            write!(f, "; costs of {} are those of conventional, scaled", s.borrowed.join(", "))?;
        }
        match s.settled {
            None => write!(f, "; nothing was measured")?,
            Some(settled) => {
                let end = if settled { "no rival was left" } else { "the budget was spent" };
                write!(f, "; {} trials in {:.0}s, {end}", s.trials, s.seconds)?;
                if let Some(scale) = s.scale {
                    write!(f, "; the model's figures are scaled by {scale:.2} to them")?;
                }
            }
        }
        if !self.machine.assumed.is_empty() {
            write!(f, "\nassumed of the machine: {}", self.machine.assumed.join(", "))?;
        }
        if !s.unpredicted.is_empty() {
            let more = s.unpredicted.len() - 1;
            let others = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            write!(f, "\nnot ranked: {}{others}", s.unpredicted[0])?;
        }
        Ok(())
    }
}

fn expected(choice: &Entry) -> String {
    let range = format!("{} to {}", rate(choice.tps.low), rate(choice.tps.high));
    let p99 = choice.p99_us.map_or_else(String::new, |us| format!(", 99 % of answers within {}", time(us)));
    format!("{} transactions a second ({range}){p99}", rate(choice.tps.mid))
}

fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Screened => "estimate",
        Basis::Refined => "model",
        Basis::Measured => "trials",
    }
}

/// Three significant digits: `812`, `45.2k`, `1.23M`.
fn rate(tps: f64) -> String {
    let (value, unit) = match tps {
        t if t >= 999_500.0 => (t / 1e6, "M"),
        t if t >= 999.5 => (t / 1e3, "k"),
        t => (t, ""),
    };
    let decimals = match value {
        v if v >= 99.95 || unit.is_empty() => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}{unit}")
}

fn number(value: f64) -> String {
    if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        let all = [0.4, 812.3, 999.6, 45_230.0, 999_600.0, 1_234_000.0, 12_340_000.0].map(rate);
        assert_eq!(all, ["0", "812", "1.00k", "45.2k", "1.00M", "1.23M", "12.3M"]);
        assert_eq!((number(14.2), number(0.52)), ("14".into(), "0.5".into()));
    }
}
