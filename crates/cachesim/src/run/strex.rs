//! STREX (thesis, section 7.4): a core runs a team of transactions of one type. The lead goes
//! ahead; the others follow through the code that it has brought into the L1-I.
//!
//! ```text
//!   the lead resumes:              phase += 1 (mod 256)
//!   a block is used:               tag[block] = phase
//!   a miss would drive out a block of the current phase: the next of the team goes on
//! ```
//!
//! The lead may drive out what the phases before have brought, so it always advances.

use crate::run::driver::{Policy, Run, Step};
use crate::run::settings::{Protect, Settings};

/// The bits of a phase.
pub const PHASE_BITS: u32 = u8::BITS;

#[derive(Debug)]
pub struct Strex {
    teams: Vec<Team>,
    team: usize,
    window: usize,
    protect: Protect,
}

/// The team of a context.
#[derive(Clone, Debug, Default)]
struct Team {
    /// Its transactions, the lead first, as they queue up.
    lead: Option<usize>,
    phase: u8,
    /// The miss that was just taken drove out a block of this phase.
    trespassed: bool,
}

impl Strex {
    pub fn new(settings: &Settings) -> Strex {
        let teams = vec![Team::default(); settings.cores * settings.contexts];
        Strex { teams, team: settings.team.max(1), window: settings.window.max(1), protect: settings.protect }
    }

    /// The places in the waiting queue of the next team: the oldest transaction and the ones of its
    /// type behind it, within the window.
    fn next_team(&self, run: &Run<'_>) -> Vec<usize> {
        let Some(&(_, kind)) = run.waiting.front() else { return Vec::new() };
        let window = run.waiting.iter().take(self.window).enumerate();
        window.filter(|(_, (_, of))| *of == kind).map(|(at, _)| at).take(self.team).collect()
    }
}

impl Policy for Strex {
    fn dispatch(&mut self, run: &mut Run<'_>) {
        let mut idle: Vec<usize> = (0..run.contexts.len()).filter(|&c| run.is_idle(c)).collect();
        idle.sort_by(|a, b| run.contexts[*a].time.total_cmp(&run.contexts[*b].time));
        for context in idle {
            let now = run.contexts[context].time;
            for (taken, at) in self.next_team(run).into_iter().enumerate() {
                let thread = run.take_up(at - taken, now);
                run.contexts[context].queue.push_back(thread);
                if taken == 0 {
                    self.teams[context].lead = Some(thread);
                }
            }
        }
    }

    fn resumes(&mut self, _run: &mut Run<'_>, context: usize, thread: usize) {
        let team = &mut self.teams[context];
        if team.lead == Some(thread) {
            team.phase = team.phase.wrapping_add(1);
        }
    }

    #[inline]
    fn before(&mut self, run: &mut Run<'_>, context: usize, _thread: usize, line: u64) -> Step {
        let team = &mut self.teams[context];
        let l1i = run.chip.l1i(run.contexts[context].core);
        let trespasses = l1i.would_drive_out(line).is_some_and(|(_, tag)| tag == team.phase);
        team.trespassed = trespasses && self.protect == Protect::Fill;
        if trespasses && self.protect == Protect::Refuse { Step::Tail } else { Step::Stay }
    }

    #[inline]
    fn after(&mut self, run: &mut Run<'_>, place: (usize, usize), line: u64, _hit: bool, _n: u32) -> Step {
        let team = &mut self.teams[place.0];
        run.chip.l1i_mut(run.contexts[place.0].core).set_note(line, team.phase);
        if std::mem::take(&mut team.trespassed) { Step::Tail } else { Step::Stay }
    }

    fn left(&mut self, run: &mut Run<'_>, context: usize, thread: usize, ended: bool) {
        let team = &mut self.teams[context];
        if ended && team.lead == Some(thread) {
            team.lead = run.contexts[context].queue.front().copied();
        }
    }
}
