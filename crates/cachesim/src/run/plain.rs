//! The baselines: a free context takes the transaction that has waited longest, and keeps it.

use crate::run::driver::{Policy, Run};

#[derive(Debug)]
pub struct Plain;

impl Policy for Plain {
    fn dispatch(&mut self, run: &mut Run<'_>) {
        let mut idle: Vec<usize> = (0..run.contexts.len()).filter(|&c| run.is_idle(c)).collect();
        idle.sort_by(|a, b| run.contexts[*a].time.total_cmp(&run.contexts[*b].time));
        for context in idle {
            if run.waiting.is_empty() {
                return;
            }
            let thread = run.take_up(0, run.contexts[context].time);
            run.contexts[context].queue.push_back(thread);
        }
    }
}
