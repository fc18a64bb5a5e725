//! Explores every order of events of one distributed transaction with up to three participants:
//! lost, repeated and reordered messages, broken links, failures, time-outs, crashes and restarts
//! of any node.
//!
//! Then the same with planted bugs. The checker must find each: a model that accepts everything
//! proves nothing.

mod world;

use stateright::{Checker, HasDiscoveries, Model, Property};
use twophase::coordinator::{Event as Home, Phase};
use twophase::participant::{Event as Remote, Wrote};
use twophase::{Decision, Holds, Vote};
use world::{Budget, Bug, Disk, Ended, Kept, Packet, Rides, Role, Wire, World};

use base::InstanceId;

const WRITER: Role = Role { rides: Rides::Ahead, wrote: Wrote::Something };
const READER: Role = Role { rides: Rides::Ahead, wrote: Wrote::Nothing };
const ASKED_WRITER: Role = Role { rides: Rides::Not, wrote: Wrote::Something };
const ASKED_READER: Role = Role { rides: Rides::Not, wrote: Wrote::Nothing };
const LAST_WRITER: Role = Role { rides: Rides::Last, wrote: Wrote::Something };
const LAST_READER: Role = Role { rides: Rides::Last, wrote: Wrote::Nothing };

struct Universe {
    roles: &'static [Role],
    holds: Holds,
    budget: Budget,
    bug: Bug,
    ended: Ended,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Action {
    Deliver(Packet),
    /// Deliver, and leave a copy to be delivered again.
    Repeat(Packet),
    Lose(Packet),
    /// The steps arrive and fail.
    Refuse(Packet),
    SendLast(usize),
    Ready,
    OwnPartFails,
    Timeout,
    HomeFlush,
    PartFlush(usize),
    HomeTick,
    PartTick(usize),
    HomeSeesLinkBreak(usize),
    PartSeesLinkBreak(usize),
    HomeCrash(Kept),
    PartCrash(usize, Kept),
    HomeRestart,
    ReadNotes,
    PartRestart(usize),
    /// A participant tells the home of its restart.
    Announce(usize),
    LetIn(usize),
    /// The transaction has run for its longest time.
    TimeIsOver,
}

impl Model for Universe {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.roles, self.holds, self.budget, self.bug, self.ended)]
    }

    fn actions(&self, w: &World, out: &mut Vec<Action>) {
        for &packet in &w.net {
            let steps = matches!(packet.wire, Wire::Steps(_));
            if steps && w.is_closed(packet.to) {
                continue;
            }
            out.push(Action::Deliver(packet));
            if w.left.repeats > 0 && !steps {
                out.push(Action::Repeat(packet));
            }
            if w.left.losses > 0 {
                out.push(Action::Lose(packet));
            }
            if w.left.failures > 0 && steps {
                out.push(Action::Refuse(packet));
            }
        }
        self.home_actions(w, out);
        // It matters only to a gate that waits for it.
        if !w.overdue && w.parts.iter().any(|part| part.closed) {
            out.push(Action::TimeIsOver);
        }
        (0..w.parts.len()).for_each(|i| self.part_actions(w, i, out));
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut w = last.clone();
        step(&mut w, action);
        (w != *last).then_some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("atomic", |_, w: &World| w.atomic()),
            Property::always("acknowledged is safe", |_, w: &World| w.acknowledged_is_safe()),
            Property::always("readers sit out phase two", |_, w: &World| w.readers_sit_out()),
            Property::always("locks held to the lock point", |_, w: &World| w.locks_held_to_the_lock_point()),
            Property::always("forgets what is done", |_, w: &World| w.forgets_what_is_done()),
            Property::always("comes to rest", |_, w: &World| w.comes_to_rest()),
            Property::sometimes("commits", |_, w: &World| w.home.replied == Some(Decision::Commit)),
            Property::sometimes("aborts", |_, w: &World| w.home.replied == Some(Decision::Abort)),
            Property::sometimes("somebody votes No", |_, w: &World| w.voted(Vote::No)),
        ]
    }
}

impl Universe {
    fn home_actions(&self, w: &World, out: &mut Vec<Action>) {
        if !w.home.up {
            return out.push(Action::HomeRestart);
        }
        if w.home.ignorant {
            out.push(Action::ReadNotes);
        }
        if w.can_be_ready() {
            out.push(Action::Ready);
        }
        if w.undecided(Phase::Running) || w.undecided(Phase::Voting) {
            out.push(Action::Timeout);
            if w.left.failures > 0 {
                out.push(Action::OwnPartFails);
            }
        }
        if w.home.record == Disk::Appended {
            out.push(Action::HomeFlush);
        }
        if w.left.ticks > 0 && w.undecided(Phase::Telling) {
            out.push(Action::HomeTick);
        }
        if w.left.crashes > 0 {
            out.push(Action::HomeCrash(Kept::Nothing));
            if w.home.record == Disk::Appended || w.home.forgotten {
                out.push(Action::HomeCrash(Kept::All));
            }
        }
    }

    fn part_actions(&self, w: &World, i: usize, out: &mut Vec<Action>) {
        let part = &w.parts[i];
        if w.can_send_last(i) {
            out.push(Action::SendLast(i));
        }
        if w.home.machine.is_some() && (!part.up || w.left.broken_links > 0) {
            out.push(Action::HomeSeesLinkBreak(i));
        }
        if !part.up {
            return out.push(Action::PartRestart(i));
        }
        if part.closed && !part.announced && w.home.up {
            out.push(Action::Announce(i));
        }
        if w.may_let_in(i) {
            out.push(Action::LetIn(i));
        }
        if part.prepare == Disk::Appended || part.commit == Disk::Appended {
            out.push(Action::PartFlush(i));
        }
        if part.machine.is_some() {
            if w.left.ticks > 0 {
                out.push(Action::PartTick(i));
            }
            if !w.home.up || w.left.broken_links > 0 {
                out.push(Action::PartSeesLinkBreak(i));
            }
        }
        if w.left.crashes > 0 {
            out.push(Action::PartCrash(i, Kept::Nothing));
            if part.prepare == Disk::Appended || part.commit == Disk::Appended || part.aborted {
                out.push(Action::PartCrash(i, Kept::First));
                out.push(Action::PartCrash(i, Kept::All));
            }
        }
    }
}

fn step(w: &mut World, action: Action) {
    match action {
        Action::Deliver(packet) => {
            w.net.remove(&packet);
            w.deliver(packet, false);
        }
        Action::Repeat(packet) => {
            w.left.repeats -= 1;
            w.deliver(packet, false);
        }
        Action::Lose(packet) => {
            w.left.losses -= 1;
            w.net.remove(&packet);
        }
        Action::Refuse(packet) => {
            w.left.failures -= 1;
            w.net.remove(&packet);
            w.deliver(packet, true);
        }
        Action::SendLast(i) => w.send_last(i),
        Action::Ready => w.home(Home::LocalReady),
        Action::OwnPartFails => {
            w.left.failures -= 1;
            w.home.aborted = true;
            w.home(Home::LocalFailed);
        }
        Action::Timeout => w.home(Home::Timeout),
        Action::HomeFlush => w.home_flush(),
        Action::PartFlush(i) => w.part_flush(i),
        Action::HomeTick => {
            w.left.ticks -= 1;
            w.home(Home::Tick);
        }
        Action::PartTick(i) => {
            w.left.ticks -= 1;
            w.part_tick(i);
        }
        Action::HomeSeesLinkBreak(i) => {
            w.left.broken_links -= u8::from(w.parts[i].up);
            w.break_link(i);
            w.home(Home::PeerLost { from: InstanceId(i as u16 + 1) });
        }
        Action::PartSeesLinkBreak(i) => {
            w.left.broken_links -= u8::from(w.home.up);
            w.break_link(i);
            w.part(i, Remote::PeerLost);
        }
        Action::HomeCrash(kept) => {
            w.left.crashes -= 1;
            w.home_crash(kept);
        }
        Action::PartCrash(i, kept) => {
            w.left.crashes -= 1;
            w.part_crash(i, kept);
        }
        Action::HomeRestart => w.home_restart(),
        Action::ReadNotes => w.read_notes(),
        Action::PartRestart(i) => w.part_restart(i),
        Action::Announce(i) => w.announce(i),
        Action::LetIn(i) => w.let_in(i),
        Action::TimeIsOver => w.overdue = true,
    }
}

const NO_TROUBLE: Budget =
    Budget { crashes: 0, repeats: 0, losses: 0, broken_links: 0, failures: 0, ticks: 0 };

const SAFETY: [&str; 6] = [
    "atomic",
    "acknowledged is safe",
    "readers sit out phase two",
    "locks held to the lock point",
    "forgets what is done",
    "comes to rest",
];

/// Explores the whole space: no property is broken, and both outcomes are reached.
fn holds(roles: &'static [Role], budget: Budget) {
    explore(roles, Holds::FromSteps, budget, Ended::Dropped);
}

fn holds_prepared(roles: &'static [Role], budget: Budget) {
    explore(roles, Holds::FromPrepare, budget, Ended::Dropped);
}

fn explore(roles: &'static [Role], holds: Holds, budget: Budget, ended: Ended) {
    let begun = std::time::Instant::now();
    let checker =
        Universe { roles, holds, budget, bug: Bug::None, ended }.checker().threads(2).spawn_bfs().join();
    eprintln!("{roles:?} {budget:?}: {} states in {:?}", checker.unique_state_count(), begun.elapsed());
    for property in SAFETY {
        checker.assert_no_discovery(property);
    }
    checker.assert_any_discovery("commits");
    checker.assert_any_discovery("aborts");
    if budget.failures > 0 {
        checker.assert_any_discovery("somebody votes No");
    }
}

#[test]
fn two_writers_survive_crashes_losses_and_repeats() {
    holds(&[WRITER, WRITER], Budget { crashes: 2, losses: 1, repeats: 1, ticks: 2, ..NO_TROUBLE });
}

#[test]
fn two_writers_survive_broken_links_and_failures() {
    holds(
        &[WRITER, WRITER],
        Budget { crashes: 1, broken_links: 2, failures: 1, repeats: 1, ticks: 1, ..NO_TROUBLE },
    );
}

#[test]
fn machines_that_are_kept_after_their_end_answer_like_those_that_were_dropped() {
    let budget = Budget { crashes: 1, losses: 1, repeats: 1, broken_links: 1, failures: 1, ticks: 1 };
    explore(&[WRITER, READER], Holds::FromSteps, budget, Ended::Kept);
    let budget = Budget { crashes: 1, repeats: 1, ticks: 2, ..NO_TROUBLE };
    explore(&[WRITER, ASKED_WRITER], Holds::FromSteps, budget, Ended::Kept);
    explore(&[ASKED_WRITER, READER], Holds::FromPrepare, budget, Ended::Kept);
}

#[test]
fn a_reader_beside_a_writer() {
    holds(
        &[WRITER, READER],
        Budget { crashes: 2, losses: 1, repeats: 1, broken_links: 1, ticks: 1, ..NO_TROUBLE },
    );
}

#[test]
fn the_prepare_request_as_a_message_of_its_own() {
    holds(
        &[ASKED_WRITER, ASKED_READER],
        Budget { crashes: 2, losses: 1, repeats: 1, ticks: 1, ..NO_TROUBLE },
    );
}

#[test]
fn last_steps_at_one_site_after_all_others() {
    holds(
        &[ASKED_WRITER, LAST_WRITER],
        Budget { crashes: 2, losses: 1, failures: 1, ticks: 1, ..NO_TROUBLE },
    );
    holds(&[ASKED_WRITER, LAST_READER], Budget { crashes: 2, losses: 1, repeats: 1, ticks: 1, ..NO_TROUBLE });
}

#[test]
fn three_participants_one_of_them_reading() {
    holds(&[WRITER, WRITER, READER], Budget { crashes: 1, losses: 1, ticks: 1, ..NO_TROUBLE });
}

#[test]
fn readers_only_need_no_second_phase() {
    holds(
        &[READER, READER],
        Budget { crashes: 1, losses: 1, repeats: 1, broken_links: 1, ticks: 1, ..NO_TROUBLE },
    );
}

/// Local transactions that protect their reads from their prepare on, asked in every way.
#[test]
fn parts_that_are_validated_when_they_are_prepared() {
    let budget = Budget { crashes: 1, losses: 1, ticks: 1, ..NO_TROUBLE };
    holds_prepared(&[ASKED_WRITER, READER], budget);
    holds_prepared(&[ASKED_WRITER, ASKED_READER], budget);
    holds_prepared(&[WRITER, READER], budget);
    holds_prepared(&[ASKED_WRITER, LAST_READER], budget);
    holds_prepared(&[READER, LAST_WRITER], budget);
    holds_prepared(&[ASKED_READER, READER], Budget { repeats: 1, broken_links: 1, ..budget });
}

#[test]
fn three_parts_that_are_validated_when_they_are_prepared() {
    holds_prepared(&[ASKED_WRITER, READER, READER], ONE_CRASH);
    holds_prepared(&[ASKED_WRITER, READER, LAST_READER], ONE_CRASH);
}

/// The checker finds a path on which `bug` breaks `property`.
fn caught(bug: Bug, property: &'static str, roles: &'static [Role], budget: Budget) {
    caught_where(Holds::FromSteps, bug, property, roles, budget);
}

fn caught_where(holds: Holds, bug: Bug, property: &'static str, roles: &'static [Role], budget: Budget) {
    let checker = Universe { roles, holds, budget, bug, ended: Ended::Dropped }
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyOf([property].into()))
        .spawn_bfs()
        .join();
    checker.assert_any_discovery(property);
}

const ONE_CRASH: Budget = Budget { crashes: 1, ..NO_TROUBLE };

#[test]
fn planted_rolls_back_after_voting_yes() {
    caught(Bug::RollsBackInDoubt, "atomic", &[WRITER, WRITER], Budget { broken_links: 1, ..NO_TROUBLE });
}

#[test]
fn planted_answers_before_the_record_is_durable() {
    caught(Bug::AnswersBeforeDurable, "acknowledged is safe", &[WRITER, WRITER], ONE_CRASH);
    caught(Bug::AnswersBeforeDurable, "atomic", &[WRITER, WRITER], ONE_CRASH);
}

#[test]
fn planted_forgets_after_the_first_acknowledgement() {
    caught(
        Bug::ForgetsAfterFirstAck,
        "atomic",
        &[WRITER, WRITER],
        Budget { losses: 1, ticks: 1, ..NO_TROUBLE },
    );
    caught(Bug::ForgetsAfterFirstAck, "comes to rest", &[WRITER, WRITER], Budget { losses: 1, ..NO_TROUBLE });
}

#[test]
fn planted_votes_before_the_prepare_record_is_durable() {
    caught(Bug::VotesBeforeDurable, "atomic", &[WRITER, WRITER], ONE_CRASH);
}

#[test]
fn planted_acknowledges_before_the_commit_record_is_durable() {
    caught(Bug::AcksBeforeDurable, "comes to rest", &[WRITER], ONE_CRASH);
}

#[test]
fn planted_reader_releases_ahead_of_the_lock_point() {
    caught(Bug::ReaderReleasesAhead, "locks held to the lock point", &[WRITER, READER], NO_TROUBLE);
}

#[test]
fn planted_presumes_abort_before_the_notes_are_read() {
    let budget = Budget { crashes: 1, ticks: 1, ..NO_TROUBLE };
    caught(Bug::AnswersBeforeNotesAreRead, "atomic", &[WRITER, WRITER], budget);
}

#[test]
fn planted_never_inquires() {
    caught(Bug::NeverInquires, "comes to rest", &[WRITER, WRITER], Budget { losses: 1, ..NO_TROUBLE });
}

#[test]
fn planted_commit_record_without_the_list() {
    caught(Bug::RemembersNobody, "comes to rest", &[WRITER, WRITER], ONE_CRASH);
    caught(Bug::RemembersNobody, "atomic", &[WRITER, WRITER], Budget { ticks: 1, ..ONE_CRASH });
}

#[test]
fn planted_a_reader_dies_unnoticed_ahead_of_the_lock_point() {
    caught(Bug::IgnoresLostReaders, "locks held to the lock point", &[WRITER, READER], ONE_CRASH);
}

#[test]
fn planted_a_next_life_lets_others_in_before_the_home_knows() {
    for holds in [Holds::FromSteps, Holds::FromPrepare] {
        let property = "locks held to the lock point";
        caught_where(holds, Bug::LetsInUnannounced, property, &[WRITER, READER], ONE_CRASH);
    }
}

#[test]
fn planted_a_home_decides_when_its_time_is_over() {
    caught(Bug::DecidesLate, "locks held to the lock point", &[WRITER, READER], ONE_CRASH);
}

#[test]
fn planted_readers_are_let_go_before_the_last_part_is_prepared() {
    caught_where(
        Holds::FromPrepare,
        Bug::ReleasesBeforeTheLastPrepare,
        "locks held to the lock point",
        &[ASKED_WRITER, READER],
        NO_TROUBLE,
    );
}

#[test]
fn planted_a_worker_answers_for_another() {
    let bug = Bug::AnswersWhereItArrives;
    caught(bug, "forgets what is done", &[WRITER, WRITER], ONE_CRASH);
    caught(bug, "comes to rest", &[WRITER, WRITER], ONE_CRASH);
}

#[test]
fn planted_forgets_before_every_writer_has_committed() {
    caught(Bug::ForgetsAfterFirstAck, "forgets what is done", &[WRITER, WRITER], NO_TROUBLE);
}
