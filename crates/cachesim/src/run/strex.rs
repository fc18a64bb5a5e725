//! STREX (thesis, section 7.4): a core runs a team of transactions of one type. The lead goes
//! ahead; the others follow through the code that it has brought into the L1-I.
//!
//! ```text
//!   the lead resumes:              phase of the core += 1 (mod 256)
//!   a block is used:               tag[block] = phase
//!   a miss would drive out a block of the current phase: the next of the team goes on
//! ```
//!
//! The lead may drive out what the phases before have brought, so it always advances. Hardware
//! threads of one core have teams of their own, and share the counter of the core, as the tags lie
//! beside the L1-I that they share: a lead of one of them ends the phase of all.

use crate::run::driver::{Policy, Run, Step};
use crate::run::settings::{Protect, Settings};

/// The bits of a phase.
pub const PHASE_BITS: u32 = u8::BITS;

#[derive(Debug)]
pub struct Strex {
    /// By context.
    teams: Vec<Team>,
    /// By core.
    phases: Vec<u8>,
    team: usize,
    window: usize,
    protect: Protect,
}

/// The team of a context.
#[derive(Clone, Debug, Default)]
struct Team {
    /// Its transactions, the lead first, as they queue up.
    lead: Option<usize>,
    /// The miss that was just taken drove out a block of this phase.
    trespassed: bool,
}

impl Strex {
    pub fn new(settings: &Settings) -> Strex {
        Strex {
            teams: vec![Team::default(); settings.cores * settings.contexts],
            phases: vec![0; settings.cores],
            team: settings.team.max(1),
            window: settings.window.max(1),
            protect: settings.protect,
        }
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

    fn resumes(&mut self, run: &mut Run<'_>, context: usize, thread: usize) {
        if self.teams[context].lead == Some(thread) {
            let phase = &mut self.phases[run.contexts[context].core];
            *phase = phase.wrapping_add(1);
        }
    }

    #[inline]
    fn before(&mut self, run: &mut Run<'_>, context: usize, _thread: usize, line: u64) -> Step {
        let core = run.contexts[context].core;
        let victim = run.chip.l1i(core).would_drive_out(line);
        let trespasses = victim.is_some_and(|(_, tag)| tag == self.phases[core]);
        self.teams[context].trespassed = trespasses && self.protect == Protect::Fill;
        if trespasses && self.protect == Protect::Refuse { Step::Tail } else { Step::Stay }
    }

    #[inline]
    fn after(&mut self, run: &mut Run<'_>, place: (usize, usize), line: u64, _hit: bool, _n: u32) -> Step {
        let core = run.contexts[place.0].core;
        run.chip.l1i_mut(core).set_note(line, self.phases[core]);
        if std::mem::take(&mut self.teams[place.0].trespassed) { Step::Tail } else { Step::Stay }
    }

    fn left(&mut self, run: &mut Run<'_>, context: usize, thread: usize, ended: bool) {
        let team = &mut self.teams[context];
        if ended && team.lead == Some(thread) {
            team.lead = run.contexts[context].queue.front().copied();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::machine::Machine;
    use crate::run::Input;
    use trace::Trace;

    /// Section 7.4.1: a counter for each core; 7.4.2: a tag for each block of its L1-I. A lead of
    /// one hardware thread ends the phase of the others of its core, and of no other core.
    #[test]
    fn hardware_threads_share_the_phase_of_their_core() {
        let trace = Trace::default();
        let (code, machine) = (Code::of(&trace), Machine::built_in("zesto").unwrap());
        let settings = Settings { cores: 2, contexts: 2, ..Settings::default() };
        let mut run = Run::new(Input { trace: &trace, code: &code, chosen: &[] }, &machine, &settings);
        let mut strex = Strex::new(&settings);
        (0..4).for_each(|context| strex.teams[context].lead = Some(context));
        let lines = (0..8).map(|way| way * 64);
        strex.resumes(&mut run, 0, 0);
        for line in lines {
            assert_eq!(strex.before(&mut run, 0, 0, line), Step::Stay);
            run.chip.fetch(0, line, 0.0);
            strex.after(&mut run, (0, 0), line, false, 1);
        }
        assert_eq!(strex.before(&mut run, 0, 0, 512), Step::Tail);
        // Not the lead of its context: the phase stays.
        strex.resumes(&mut run, 1, 4);
        assert_eq!(strex.before(&mut run, 1, 4, 512), Step::Tail);
        strex.resumes(&mut run, 2, 2);
        assert_eq!(strex.before(&mut run, 0, 0, 512), Step::Tail);
        strex.resumes(&mut run, 1, 1);
        assert_eq!(strex.before(&mut run, 0, 0, 512), Step::Stay);
    }
}
