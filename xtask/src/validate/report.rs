//! The tables of a validation, as Markdown.

use super::points::Point;
use super::score::{Measured, errors, median, noise, quantile, rank_correlation, regret, wilson};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A regret up to this is as good as the best deployment.
const NEAR: f64 = 0.05;

/// A measured point.
pub struct Scored {
    pub point: Point,
    pub cells: Vec<Measured>,
}

/// The predictions of a scheme: by point, the choice and the throughput of each deployment.
pub struct Scheme {
    pub name: String,
    pub answers: BTreeMap<usize, (String, BTreeMap<String, f64>)>,
}

/// All tables.
pub fn tables(points: &[Scored], schemes: &[Scheme]) -> String {
    let mut out = String::new();
    noise_lines(&mut out, points);
    error_table(&mut out, points, schemes);
    for scheme in schemes {
        strata(&mut out, points, scheme);
    }
    regret_table(&mut out, points, schemes);
    worst(&mut out, points, schemes);
    out
}

fn percent(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{:.1}", value * 100.0))
}

fn noise_lines(out: &mut String, points: &[Scored]) {
    let of = |points: &mut dyn Iterator<Item = &Scored>| -> Vec<f64> {
        points.flat_map(|scored| noise(&scored.cells)).collect()
    };
    let all = of(&mut points.iter());
    let cells: usize = points.iter().map(|p| p.cells.iter().filter(|c| !c.windows.is_empty()).count()).sum();
    let _ = writeln!(
        out,
        "{} points, {cells} deployments measured. One window against the median of the others of its deployment: \
         median {} %, p90 {} %.\n",
        points.len(),
        percent(median(&all)),
        percent(quantile(&all, 0.9))
    );
}

/// The absolute errors of a scheme over the points that it predicts, of the deployments wanted.
fn all_errors(points: &[&Scored], scheme: &Scheme, wanted: &dyn Fn(&str) -> bool) -> Vec<f64> {
    let mut all = Vec::new();
    for scored in points {
        if let Some((_, tps)) = scheme.answers.get(&scored.point.number) {
            let errors = errors(tps, &scored.cells);
            all.extend(errors.into_iter().filter(|(name, _)| wanted(name)).map(|(_, error)| error.abs()));
        }
    }
    all
}

fn mean_rank(points: &[&Scored], scheme: &Scheme) -> Option<f64> {
    let of = |scored: &&Scored| {
        let (_, tps) = scheme.answers.get(&scored.point.number)?;
        rank_correlation(tps, &scored.cells)
    };
    let all: Vec<f64> = points.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

fn error_table(out: &mut String, points: &[Scored], schemes: &[Scheme]) {
    let _ = writeln!(out, "| scheme | workload | cells | median % | p90 % | rank correlation |");
    let _ = writeln!(out, "|---|---|---:|---:|---:|---:|");
    for scheme in schemes {
        let mut kinds: Vec<&str> = points.iter().map(|scored| scored.point.kind.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in ["all"].into_iter().chain(kinds) {
            let of: Vec<&Scored> =
                points.iter().filter(|scored| kind == "all" || scored.point.kind == kind).collect();
            let errors = all_errors(&of, scheme, &|_| true);
            if errors.is_empty() {
                continue;
            }
            let rank = mean_rank(&of, scheme).map_or("-".to_owned(), |rank| format!("{rank:.2}"));
            let _ = writeln!(
                out,
                "| {} | {kind} | {} | {} | {} | {rank} |",
                scheme.name,
                errors.len(),
                percent(median(&errors)),
                percent(quantile(&errors, 0.9))
            );
        }
    }
    out.push('\n');
}

/// The levels of the factors: each leaves out the others of its factor.
fn strata(out: &mut String, points: &[Scored], scheme: &Scheme) {
    let mut lines: Vec<(String, Vec<f64>)> = Vec::new();
    for (factor, names) in [
        ("multisite", vec!["0", "1", "2", "5", "10", "15", "20", "50", "100"]),
        ("rows", vec!["2", "4", "10", "20", "50"]),
        ("skew", vec!["0", "0.5", "0.9"]),
        ("dataset", vec!["20000", "200000", "1000000"]),
        ("durability", vec!["memory", "async"]),
    ] {
        for name in names {
            let of = |s: &&Scored| s.point.option(factor) == Some(name);
            let of: Vec<&Scored> = points.iter().filter(of).collect();
            lines.push((format!("{factor} {name}"), all_errors(&of, scheme, &|_| true)));
        }
    }
    let every: Vec<&Scored> = points.iter().collect();
    for channel in ["shm", "uds", "tcp"] {
        let of: Vec<&Scored> = points.iter().filter(|s| s.point.channel == channel).collect();
        let errors = all_errors(&of, scheme, &|name| !name.ends_with("/1"));
        lines.push((format!("several islands, {channel}"), errors));
    }
    lines.push(("one island".to_owned(), all_errors(&every, scheme, &|name| name.ends_with("/1"))));
    let designs = ["conventional", "logical", "plp-regular", "plp-partition", "plp-leaf", "serial", "occ"];
    for design in designs {
        let is_of = |name: &str| name.split('/').next() == Some(design);
        lines.push((design.to_owned(), all_errors(&every, scheme, &is_of)));
    }
    lines.retain(|(_, errors)| !errors.is_empty());
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "| {}: level | cells | median % | p90 % |", scheme.name);
    let _ = writeln!(out, "|---|---:|---:|---:|");
    for (name, errors) in lines {
        let (half, most) = (percent(median(&errors)), percent(quantile(&errors, 0.9)));
        let _ = writeln!(out, "| {name} | {} | {half} | {most} |", errors.len());
    }
    out.push('\n');
}

/// The cells that the points' own calibrations have measured, predicted from the calibration of the
/// kind: lines `{"cell": {...}, "predicted": ...}`.
pub fn of_calibrations(lines: &[Value]) -> String {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in lines {
        let cell = &line["cell"];
        let (Some(tps), Some(predicted)) = (cell["tps"].as_f64(), line["predicted"].as_f64()) else {
            continue;
        };
        let design = if cell["design"] == "occ" { "occ" } else { "pages" };
        let share = if cell["multisite"].as_f64() == Some(0.0) { "local" } else { "distributed" };
        let place = match cell["islands"].as_u64() {
            Some(1) => "one island".to_owned(),
            _ => format!("several islands, {}", cell["channel"].as_str().unwrap_or("?")),
        };
        all.entry(format!("{place}, {share}, {design}")).or_default().push(predicted / tps - 1.0);
    }
    let mut out = String::new();
    let _ =
        writeln!(out, "| kind: cells of the points' own calibrations | cells | median % | p90 % | bias % |");
    let _ = writeln!(out, "|---|---:|---:|---:|---:|");
    for (name, errors) in all {
        let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        let (half, most) = (percent(median(&sizes)), percent(quantile(&sizes, 0.9)));
        let _ =
            writeln!(out, "| {name} | {} | {half} | {most} | {} |", errors.len(), percent(median(&errors)));
    }
    out
}

/// The signed error of each scheme for each deployment.
pub fn every_cell(points: &[Scored], schemes: &[Scheme]) -> String {
    let mut out = String::new();
    for scored in points {
        let names: Vec<&str> = schemes.iter().map(|scheme| scheme.name.as_str()).collect();
        let _ = writeln!(
            out,
            "| {} over {} | measured | {} |",
            scored.point.words().join(" "),
            scored.point.channel,
            names.join(" % | ")
        );
        let _ = writeln!(out, "|---|---:|{}", "---:|".repeat(schemes.len()));
        for cell in &scored.cells {
            let _ = write!(out, "| {} | {:.0} |", cell.deployment, cell.truth().unwrap_or(0.0));
            for scheme in schemes {
                let tps = scheme.answers.get(&scored.point.number).map(|(_, tps)| tps);
                let error = tps.and_then(|tps| errors(tps, std::slice::from_ref(cell)).first().map(|e| e.1));
                let _ = write!(out, " {} |", error.map_or("-".into(), |e| format!("{:+.1}", e * 100.0)));
            }
            out.push('\n');
        }
        out.push('\n');
    }
    out
}

/// The regret of the schemes' choices, and of rules that look at nothing.
fn regret_table(out: &mut String, points: &[Scored], schemes: &[Scheme]) {
    let _ = writeln!(out, "| choice | points | within 5 % | Wilson 95 % | mean % | worst % |");
    let _ = writeln!(out, "|---|---:|---:|---:|---:|---:|");
    let mut line = |name: &str, pick: &dyn Fn(&Scored) -> Option<String>| {
        let all: Vec<f64> = points.iter().filter_map(|s| regret(&pick(s)?, &s.cells)).collect();
        if all.is_empty() {
            return;
        }
        let near = all.iter().filter(|regret| **regret <= NEAR).count();
        let (low, high) = wilson(near, all.len());
        let (mean, most) = (all.iter().sum::<f64>() / all.len() as f64, quantile(&all, 1.0));
        let _ = writeln!(
            out,
            "| {name} | {} | {near} | {low:.2} .. {high:.2} | {:.1} | {} |",
            all.len(),
            mean * 100.0,
            percent(most)
        );
    };
    for scheme in schemes {
        line(&scheme.name, &|s| scheme.answers.get(&s.point.number).map(|(choice, _)| choice.clone()));
    }
    line("one window of each", &|s| {
        let first = |cell: &&Measured| cell.windows.first().copied().unwrap_or(0.0);
        s.cells.iter().max_by(|a, b| first(a).total_cmp(&first(b))).map(|cell| cell.deployment.clone())
    });
    for fixed in ["conventional/1", "conventional/2", "serial/2", "occ/1", "occ/2"] {
        line(&format!("always {fixed}"), &|_| Some(fixed.to_owned()));
    }
    out.push('\n');
}

/// The greatest errors, and the choices that lost most: what to read.
fn worst(out: &mut String, points: &[Scored], schemes: &[Scheme]) {
    for scheme in schemes {
        let mut all: Vec<(f64, String)> = Vec::new();
        for scored in points {
            let Some((choice, tps)) = scheme.answers.get(&scored.point.number) else { continue };
            let of = |name: &str| {
                format!("{name}: {} over {}", scored.point.words().join(" "), scored.point.channel)
            };
            all.extend(errors(tps, &scored.cells).into_iter().map(|(name, error)| (error, of(&name))));
            if let Some(loss) = regret(choice, &scored.cells).filter(|loss| *loss > NEAR) {
                let _ =
                    writeln!(out, "- {} chose {} and lost {:.0} %", scheme.name, of(choice), loss * 100.0);
            }
        }
        all.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        for (error, cell) in all.iter().take(6) {
            let _ = writeln!(out, "- {}: {:+.0} % {cell}", scheme.name, error * 100.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deployment_has_the_signed_error_of_each_scheme() {
        let point = crate::validate::points::draw(1, 1).remove(0);
        let cell = |deployment: &str, tps| Measured { deployment: deployment.into(), windows: vec![tps] };
        let points = [Scored { point, cells: vec![cell("occ/1", 200.0), cell("occ/2", 100.0)] }];
        let tps = BTreeMap::from([("occ/1".to_owned(), 150.0)]);
        let answers = BTreeMap::from([(0, ("occ/1".to_owned(), tps))]);
        let text = every_cell(&points, &[Scheme { name: "kind".into(), answers }]);
        assert!(text.contains("| occ/1 | 200 | -25.0 |") && text.contains("| occ/2 | 100 | - |"), "{text}");
    }
}
