//! A closed form for the first screen of a search.
//!
//! It draws some requests, adds up the time that each takes at each instance, and takes the least
//! of the bounds on throughput:
//!
//! - workers: an instance of `w` workers is a closed network of `w` customers that circulate among
//!   their own work (a delay) and the hot lines (queues); exact mean-value analysis gives its rate;
//! - latency: the clients, each with one request under way, over the least time of a request;
//! - the hottest row that is updated: one transaction at a time holds it;
//! - flushes of the log under `sync`.
//!
//! Two bounds near each other slow each other down, so they are joined smoothly. The loop's turns,
//! its buffered sends, parking and queues for all but the hottest row are left out: where these
//! matter, [`crate::simulate`] says so.

use crate::case::{Case, LogWait, Service, Shape};
use crate::costs::{Protection, Visits};
use crate::deployment::Clients;
use crate::engine_loop::LOG_PAUSE_NS;
use crate::outcome::{Component, Limit};
use crate::simulate::hot_keys;
use crate::transaction::{Request, Requests};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Requests drawn for an estimate.
const DRAWN: usize = 2_048;
/// Lines of popular runs that count as queues, per instance.
const RUNS: usize = 8;
/// The exponent that joins bounds: two equal ones give 84 % of either.
const JOIN: f64 = 4.0;
/// The share of the other clients' messages that leave with one's own, as the simulation has it.
const TOGETHER: f64 = 0.3;

/// The closed form's prediction.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Estimate {
    /// Committed transactions per second.
    pub tps: f64,
    /// Each bound alone, in transactions per second, the tightest first.
    pub bounds: Vec<(Limit, f64)>,
    /// The share of transactions that touch another instance.
    pub distributed: f64,
    /// Participants besides the home, per distributed transaction.
    pub participants: f64,
    /// Messages per transaction.
    pub messages: f64,
}

impl Estimate {
    /// The tightest bound.
    pub fn limit(&self) -> &Limit {
        &self.bounds[0].0
    }
}

/// Predicts a case by the closed form.
pub fn estimate(case: &Case<'_>) -> Estimate {
    let demand = Demand::of(case);
    let mut bounds = worker_bounds(case, &demand);
    if let Clients::Closed(clients) = case.deployment.clients {
        let clients = f64::from(clients) * case.deployment.workers() as f64;
        let flush_ns = flush_wait_ns(case, &demand);
        let limit = if flush_ns > demand.latency_ns { Limit::Log { instance: 0 } } else { Limit::Messages };
        bounds.push((limit, clients * 1e9 / (demand.latency_ns + flush_ns)));
    }
    if let Some((key, rate)) = demand.hottest_row(case) {
        bounds.push((Limit::RowLocks { hottest_key: key }, rate));
    }
    // With one client a worker the latency bound is the workers' own: it must not count twice.
    let joined = |bounds: &[(Limit, f64)]| {
        let sum: f64 = bounds.iter().map(|(_, rate)| rate.powf(-JOIN)).sum();
        sum.powf(-1.0 / JOIN)
    };
    bounds.sort_by(|a, b| a.1.total_cmp(&b.1));
    let near: Vec<(Limit, f64)> =
        bounds.iter().filter(|(_, rate)| *rate < 4.0 * bounds[0].1).cloned().collect();
    let mut tps = if demand.distributed == 0.0 && near.iter().all(|(l, _)| is_of_workers(l)) {
        bounds[0].1
    } else {
        joined(&near)
    };
    if let Clients::Open(rate) = case.deployment.clients
        && rate < tps
    {
        tps = rate;
        bounds.insert(0, (Limit::Load, rate));
    }
    let all = demand.drawn as f64;
    Estimate {
        tps,
        bounds,
        distributed: demand.distributed / all,
        participants: demand.participants / demand.distributed.max(1.0),
        messages: demand.messages / all,
    }
}

/// The latency of local transactions bounds them no more than the workers do.
fn is_of_workers(limit: &Limit) -> bool {
    matches!(limit, Limit::Workers(_) | Limit::Instance(_) | Limit::HotLine { .. } | Limit::Messages)
}

/// Sums over the drawn requests.
struct Demand {
    drawn: usize,
    distributed: f64,
    participants: f64,
    messages: f64,
    /// By instance: ns of its workers per request of the whole deployment.
    busy_ns: Vec<f64>,
    /// By instance and hot line: ns of service per request.
    lines_ns: Vec<Vec<f64>>,
    /// By instance: ns for which each line of a popular run is kept, per request.
    runs_ns: Vec<HashMap<(usize, u64), f64>>,
    /// The least time of a request, in ns.
    latency_ns: f64,
    /// Requests that update.
    updating: f64,
    /// How often each row is updated, and for how long in all.
    rows: HashMap<u64, (u32, f64)>,
}

impl Demand {
    fn of(case: &Case<'_>) -> Demand {
        let instances = case.deployment.instances.len();
        let mut demand = Demand {
            drawn: DRAWN,
            distributed: 0.0,
            participants: 0.0,
            messages: 0.0,
            busy_ns: vec![0.0; instances],
            lines_ns: vec![vec![0.0; case.costs.hot.len()]; instances],
            runs_ns: vec![HashMap::new(); instances],
            latency_ns: 0.0,
            updating: 0.0,
            rows: HashMap::new(),
        };
        let popular = if case.costs.runs.is_empty() { Vec::new() } else { hot_keys(case.transactions) };
        let services: Vec<_> = (0..instances).map(|i| case.service(i)).collect();
        let lines: Vec<Vec<f64>> = (0..instances).map(|i| lines_ns(case, i)).collect();
        let mut requests = Requests::new(case.transactions, 1, 0..case.transactions.sites());
        let mut request = Request::default();
        for drawn in 0..DRAWN {
            requests.draw(&mut request);
            let distributed = demand.distributed / drawn.max(1) as f64;
            demand.add(case, &request, &services, &lines, distributed);
            demand.add_runs(case, &request, &popular);
        }
        let scale = 1.0 / DRAWN as f64;
        demand.busy_ns.iter_mut().for_each(|ns| *ns *= scale);
        demand.lines_ns.iter_mut().flatten().for_each(|ns| *ns *= scale);
        demand.runs_ns.iter_mut().flat_map(HashMap::values_mut).for_each(|ns| *ns *= scale);
        demand.latency_ns *= scale;
        if !case.is_routed() {
            demand.even_out(case);
        }
        demand
    }

    /// Clients draw from their own instance's sites, so each instance has its share by workers; the
    /// drawn requests scatter around it.
    fn even_out(&mut self, case: &Case<'_>) {
        let all = case.deployment.workers() as f64;
        let busy: f64 = self.busy_ns.iter().sum();
        for (number, cores) in case.deployment.instances.iter().enumerate() {
            self.busy_ns[number] = busy * cores.len() as f64 / all;
        }
        for line in 0..case.costs.hot.len() {
            let sum: f64 = self.lines_ns.iter().map(|lines| lines[line]).sum();
            for (number, cores) in case.deployment.instances.iter().enumerate() {
                self.lines_ns[number][line] = sum * cores.len() as f64 / all;
            }
        }
    }

    /// Adds a request; `so_far` is the share of distributed ones among the earlier ones.
    fn add(
        &mut self,
        case: &Case<'_>,
        request: &Request,
        services: &[Service],
        lines: &[Vec<f64>],
        so_far: f64,
    ) {
        let home = case.owner_of(request.home_site);
        let parts = parts_of(case, request, home);
        let updates = f64::from(request.updates());
        let all = request.rows.len() as f64 + f64::from(request.inserts);
        let shape = Shape { all, updates, weight: request.row_weight };
        let is_distributed = parts.len() > 1;
        let p = case.parts(updates > 0.0);
        let log_ns = if updates > 0.0 { services[home].append_ns } else { 0.0 };
        let mut latency = log_ns + forwarded_ns(case, home);
        self.busy_ns[home] += latency;
        let at_once = case.profile.visits == Visits::AtOnce;
        // Of parts that run at once the longest counts.
        let mut longest = 0.0_f64;
        for (at, (instance, rows, wrote)) in parts.iter().copied().enumerate() {
            let before = latency;
            let (work, sharing) =
                services[instance].part_ns(shape, rows, rows, f64::from(u8::from(is_distributed)));
            self.busy_ns[instance] += work + sharing;
            latency += work + sharing + self.add_lines(case, instance, shape, rows, &lines[instance]);
            let handed = handoff_ns(case, request, instance);
            self.busy_ns[instance] += handed;
            latency += handed;
            if at == 0 {
                continue;
            }
            // Steps and reply; decision and acknowledgement if it wrote; a release if it read
            // beside others.
            let released = !wrote && parts.len() > 2 && !at_once;
            let messages = 2.0 + if wrote { 2.0 } else { f64::from(u8::from(released)) };
            let (send, receive, way) = message_ns(case, (home, instance), so_far);
            let records_ns = case.costs.two_phase_log_ns + case.costs.two_phase_row_ns * rows;
            let two_phase = if wrote { records_ns } else { 0.0 };
            let own = p.home + p.reply + if wrote { p.ack } else { 0.0 };
            let there = p.participant + if wrote || released { p.decision } else { 0.0 } + two_phase;
            let first_two = p.home + p.reply + p.participant + two_phase;
            self.busy_ns[home] += own / case.speed + messages / 2.0 * (send + receive);
            self.busy_ns[instance] += there / case.speed + messages / 2.0 * (send + receive);
            latency += first_two / case.speed + 2.0 * (send + receive + way);
            if at_once {
                // The home's own ns for each participant come one after the other.
                let own = (p.home + p.reply) / case.speed + send + receive;
                longest = longest.max(latency - before - own);
                latency = before + own;
            }
            self.messages += messages;
            self.participants += 1.0;
        }
        latency += longest;
        if is_distributed {
            self.distributed += 1.0;
            self.busy_ns[home] += if updates > 0.0 { case.costs.two_phase_log_ns / case.speed } else { 0.0 };
        }
        self.latency_ns += latency;
        self.updating += f64::from(u8::from(updates > 0.0));
        let holds = case.costs.protection != Protection::Validation || is_distributed;
        for row in request.rows.iter().filter(|row| row.update && holds) {
            let entry = self.rows.entry(row.key).or_default();
            entry.0 += 1;
            // On average a row is reached halfway, unless it is the first of several instances'.
            entry.1 += if is_distributed { latency } else { latency / 2.0 };
        }
    }

    /// Adds the visits of an instance's hot lines by `rows` rows; the ns of all of them.
    fn add_lines(
        &mut self,
        case: &Case<'_>,
        instance: usize,
        shape: Shape,
        rows: f64,
        line_ns: &[f64],
    ) -> f64 {
        if !case.is_shared(instance) {
            return 0.0;
        }
        let visits = case.costs.hot.iter().map(|hot| case.hot_visits(hot, shape, rows));
        let added = visits.zip(line_ns).map(|(visits, ns)| visits * ns);
        self.lines_ns[instance].iter_mut().zip(added).fold(0.0, |sum, (line, ns)| {
            *line += ns;
            sum + ns
        })
    }

    /// Adds the time for which a request keeps the lines of popular runs.
    fn add_runs(&mut self, case: &Case<'_>, request: &Request, popular: &[(u64, u64)]) {
        for row in &request.rows {
            let Some((first, _)) = popular.iter().find(|(a, b)| (*a..*b).contains(&row.key)) else {
                continue;
            };
            let instance = case.owner_of(row.site);
            if !case.is_shared(instance) {
                continue;
            }
            for (number, run) in case.costs.runs.iter().enumerate() {
                let ns = case.run_ns(run, row.update, distance_ns(case, instance));
                *self.runs_ns[instance].entry((number, first + (row.key - first) / run.rows)).or_default() +=
                    ns;
            }
        }
    }

    /// An instance's queues, in ns per request: its hot lines, and the lines of its most popular
    /// runs; and the sum of the latter, which is part of the workers' own time.
    fn queues_ns(&self, instance: usize) -> (Vec<f64>, f64) {
        let mut runs: Vec<f64> = self.runs_ns[instance].values().copied().collect();
        runs.sort_by(|a, b| b.total_cmp(a));
        runs.truncate(RUNS);
        let inside = runs.iter().sum();
        (self.lines_ns[instance].iter().copied().chain(runs).collect(), inside)
    }

    /// The row that is held for the largest share of the time, if it was drawn often enough to
    /// tell, and the rate at which it would always be held.
    fn hottest_row(&self, case: &Case<'_>) -> Option<(u64, f64)> {
        let is_alone = case.deployment.workers() == 1;
        let often = self.rows.iter().filter(|(_, (count, _))| *count >= 8 && !is_alone);
        let held = often.max_by(|a, b| a.1.1.total_cmp(&b.1.1).then(b.0.cmp(a.0)));
        held.map(|(key, (_, ns))| (*key, self.drawn as f64 * 1e9 / ns))
    }
}

/// The instance, the rows and whether it updates, for each part of a request; the home comes first.
fn parts_of(case: &Case<'_>, request: &Request, home: usize) -> SmallVec<[(usize, f64, bool); 8]> {
    let mut parts: SmallVec<[(usize, f64, bool); 8]> = SmallVec::new();
    parts.push((home, f64::from(request.inserts), request.inserts > 0));
    for row in &request.rows {
        let at = case.owner_of(row.site);
        match parts.iter_mut().find(|(instance, ..)| *instance == at) {
            Some((_, rows, updates)) => {
                *rows += 1.0;
                *updates |= row.update;
            }
            None => parts.push((at, 1.0, row.update)),
        }
    }
    parts
}

/// ns for the rows of a request at owners of an instance other than the one that it begins at.
fn handoff_ns(case: &Case<'_>, request: &Request, instance: usize) -> f64 {
    let ns = case.handoff_ns(request.updates() > 0);
    if ns == 0.0 || !case.is_shared(instance) {
        return 0.0;
    }
    let sites = case.sites_of(instance);
    let here = |site: u32| sites.contains(&site).then(|| case.worker_of_site(instance, site));
    let mut owners: SmallVec<[usize; 8]> = request.rows.iter().filter_map(|row| here(row.site)).collect();
    owners.sort_unstable();
    owners.dedup();
    let workers = case.deployment.instances[instance].len() as f64;
    let others = match here(request.home_site) {
        // Under skew a client is at any worker, so that the home site may be another one's.
        Some(own) if !case.is_routed() => owners.iter().filter(|owner| **owner != own).count() as f64,
        _ => owners.len() as f64 * (1.0 - 1.0 / workers),
    };
    ns * others
}

/// One visit of each hot line in ns, on average.
fn lines_ns(case: &Case<'_>, instance: usize) -> Vec<f64> {
    let distance = distance_ns(case, instance);
    case.costs.hot.iter().map(|hot| case.hot_ns(hot, distance)).collect()
}

/// The mean distance to the last owner of a line of an instance, in ns.
fn distance_ns(case: &Case<'_>, instance: usize) -> f64 {
    let cores = &case.deployment.instances[instance];
    (1.0 - 1.0 / cores.len() as f64) * case.machine.mean_ns(cores)
}

/// ns of the request and the answer of a client at another instance, on average over clients.
fn forwarded_ns(case: &Case<'_>, home: usize) -> f64 {
    let instances = &case.deployment.instances;
    if !case.is_routed() || instances.len() < 2 {
        return 0.0;
    }
    let other = usize::from(home == 0);
    let (send, receive, _) = message_ns(case, (other, home), 1.0);
    let away = 1.0 - instances[home].len() as f64 / case.deployment.workers() as f64;
    (2.0 * (send + receive) + case.costs.forward / case.speed) * away
}

/// A message's ns at the sender, at the receiver, and on the way. Messages of several clients of a
/// worker share a write and a look at a socket, the more of them are distributed: `distributed` is
/// their share.
fn message_ns(case: &Case<'_>, (a, b): (usize, usize), distributed: f64) -> (f64, f64, f64) {
    let Some(channel) = case.channel else { return (0.0, 0.0, 0.0) };
    let messages = &case.profile.messages;
    let (from, to) = (case.deployment.instances[a][0], case.deployment.instances[b][0]);
    let fetch = if case.shares_memory() { case.machine.latency_ns(from, to) } else { 0.0 };
    let others = match case.deployment.clients {
        Clients::Closed(clients) if channel.is_socket => f64::from(clients.saturating_sub(1)),
        _ => 0.0,
    };
    let together = 1.0 + TOGETHER * others * distributed;
    let send = (messages.encode_ns + channel.write_ns / together) / case.speed;
    let receive = (messages.decode_ns + channel.read_ns / together) / case.speed + fetch;
    (send, receive, case.way_ns(from, to))
}

/// The time that a request waits for flushes: half of one under way, and its own.
fn flush_wait_ns(case: &Case<'_>, demand: &Demand) -> f64 {
    let depth = case.deployment.instances.len() as u32;
    let per_commit = match case.log_wait() {
        LogWait::None => return 0.0,
        LogWait::Flushed => 1.5 * case.machine.flush_ns(depth),
        // Without messages all clients of a worker wait together; with some, a thread pauses.
        LogWait::Written => {
            let distributed = demand.distributed / demand.drawn as f64;
            case.write_ns(0.0) + (distributed * 8.0).min(1.0) * LOG_PAUSE_NS as f64
        }
    };
    // A distributed one waits at a participant and then at home.
    let shares = demand.updating + demand.distributed.min(demand.updating);
    per_commit * shares / demand.drawn as f64
}

/// Each instance's rate by mean-value analysis, in requests of the whole deployment per second.
fn worker_bounds(case: &Case<'_>, demand: &Demand) -> Vec<(Limit, f64)> {
    let instances = case.deployment.instances.len();
    let mut rates: Vec<f64> = Vec::with_capacity(instances);
    let mut worst = (Limit::Workers(Component::Work), f64::INFINITY);
    // A pass of the loop serves several tasks: one share of it for each.
    let pass_ns = case.profile.worker_loop.pass_ns / case.speed / case.profile.worker_loop.turns as f64;
    for (number, busy) in demand.busy_ns.iter().enumerate() {
        let workers = case.deployment.instances[number].len();
        let (queues, inside) = demand.queues_ns(number);
        let delay_ns = (busy + pass_ns / instances as f64 - inside).max(0.0);
        let mut rate = mva(workers, delay_ns, &queues);
        // The fuller a line, the more surely another worker had it last.
        let alone = workers as f64 / (workers as f64 - 1.0).max(1.0);
        let busier = |ns: &f64| ns * (1.0 + (alone - 1.0) * (rate * ns / 1e9).min(1.0));
        let full: Vec<f64> = queues.iter().map(busier).collect();
        rate = mva(workers, delay_ns, &full);
        let hottest = demand.lines_ns[number].iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        if rate < worst.1 {
            let full = hottest.filter(|(_, ns)| rate * ns / 1e9 > 0.8);
            let limit = match full {
                Some((line, _)) => Limit::HotLine { instance: number, line },
                None => Limit::Workers(Component::Work),
            };
            worst = (limit, rate);
        }
        rates.push(rate);
    }
    let most = rates.iter().copied().fold(0.0, f64::max);
    if most > 1.5 * worst.1 && matches!(worst.0, Limit::Workers(_)) {
        worst.0 = Limit::Instance(rates.iter().position(|r| *r == worst.1).unwrap_or(0));
    }
    vec![worst]
}

/// Throughput per second of `customers` that circulate among a delay and queues of one server each:
/// exact mean-value analysis.
pub fn mva(customers: usize, delay_ns: f64, queues_ns: &[f64]) -> f64 {
    let mut lengths = vec![0.0; queues_ns.len()];
    let mut rate = 0.0;
    for n in 1..=customers {
        let times: Vec<f64> =
            queues_ns.iter().zip(&lengths).map(|(ns, length)| ns * (1.0 + length)).collect();
        rate = n as f64 / (delay_ns + times.iter().sum::<f64>());
        lengths.iter_mut().zip(&times).for_each(|(length, time)| *length = rate * time);
    }
    rate * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_value_analysis_gives_the_known_limits() {
        // No queue: every customer at its own pace.
        assert!((mva(4, 1_000.0, &[]) - 4e6).abs() < 1.0);
        // A queue alone: its own rate.
        assert!((mva(50, 0.0, &[100.0]) - 1e7).abs() < 1.0);
        // Two equal queues and n customers: n / (n + 1) of a queue's rate.
        assert!((mva(3, 0.0, &[100.0, 100.0]) - 0.75e7).abs() < 1.0);
    }
}
