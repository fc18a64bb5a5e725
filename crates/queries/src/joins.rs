//! Joins. Equalities are found by hashing; the order of inner joins follows from the numbers of
//! rows.

use crate::row::{Tuple, key_of};
use crate::run::Run;
use crate::select::At;
use compiler::tree::{Condition, Node, OuterJoin};
use sql::{Expr, SqlError};
use std::collections::HashMap;

/// Joined rows, and the relations that they have so far, a bit each.
struct Part {
    tuples: Vec<Tuple>,
    relations: u64,
}

impl<'r> Run<'r> {
    /// The joined rows of a node. `base` has the rows of the parts before it that it may need.
    pub fn node(&self, node: &'r Node, at: &At<'_, 'r>, base: &Tuple) -> Result<Vec<Tuple>, SqlError> {
        match node {
            Node::Leaf(leaf) => self.leaf(leaf, at, base),
            Node::Filter { input, conditions } => {
                let mut kept = Vec::new();
                for tuple in self.node(input, at, base)? {
                    self.step()?;
                    if self.hold(conditions, &at.frame(self, &tuple))? {
                        kept.push(tuple);
                    }
                }
                Ok(kept)
            }
            Node::Inner { parts, conditions, in_order: true } => self.one_by_one(parts, conditions, at, base),
            Node::Inner { parts, conditions, in_order: false } => self.inner(parts, conditions, at, base),
            Node::Outer(join) if join.is_lateral => self.outer_lateral(join, at, base),
            Node::Outer(join) => self.outer_join(join, at, base),
        }
    }

    /// Parts in their order: each may need the rows of those before it.
    fn one_by_one(
        &self,
        parts: &'r [Node],
        conditions: &'r [Condition],
        at: &At<'_, 'r>,
        base: &Tuple,
    ) -> Result<Vec<Tuple>, SqlError> {
        let mut tuples = vec![base.clone()];
        let (mut known, mut done) = (0, vec![false; conditions.len()]);
        for part in parts {
            known |= relations(part);
            let mut next = Vec::new();
            let ready = ready(conditions, known, &mut done);
            for tuple in &tuples {
                for joined in self.node(part, at, tuple)? {
                    self.step()?;
                    if self.hold(ready.iter().copied(), &at.frame(self, &joined))? {
                        next.push(joined);
                    }
                }
            }
            tuples = next;
        }
        Ok(tuples)
    }

    /// The part with the fewest rows first, then each time the one with the fewest rows that an
    /// equality joins to those before it.
    fn inner(
        &self,
        parts: &'r [Node],
        conditions: &'r [Condition],
        at: &At<'_, 'r>,
        base: &Tuple,
    ) -> Result<Vec<Tuple>, SqlError> {
        let mut waiting = Vec::with_capacity(parts.len());
        for part in parts {
            let tuples = self.node(part, at, base)?;
            if tuples.is_empty() {
                return Ok(tuples);
            }
            waiting.push(Part { tuples, relations: relations(part) });
        }
        let mut done = vec![false; conditions.len()];
        let first = (0..waiting.len()).min_by_key(|at| waiting[*at].tuples.len()).unwrap_or(0);
        let mut joined = waiting.swap_remove(first);
        while !waiting.is_empty() {
            let is_linked = |part: &Part| {
                let mut links = conditions.iter().zip(&done).filter(|(_, done)| !**done);
                links.any(|(condition, _)| sides(condition, joined.relations, part.relations).is_some())
            };
            let rank = |at: &usize| (!is_linked(&waiting[*at]), waiting[*at].tuples.len());
            let next = (0..waiting.len()).min_by_key(rank).unwrap_or(0);
            let part = waiting.swap_remove(next);
            let mut equal = Vec::new();
            for (condition, done) in conditions.iter().zip(&mut done) {
                if let Some(pair) = sides(condition, joined.relations, part.relations).filter(|_| !*done) {
                    equal.push(pair);
                    *done = true;
                }
            }
            let known = joined.relations | part.relations;
            let ready = ready(conditions, known, &mut done);
            joined = Part { tuples: self.matched(joined, part, &equal, &ready, at)?, relations: known };
            if joined.tuples.is_empty() {
                break;
            }
        }
        Ok(joined.tuples)
    }

    /// The inner join of two parts.
    fn matched(
        &self,
        left: Part,
        right: Part,
        equal: &[(&Expr, &Expr)],
        conditions: &[&Expr],
        at: &At<'_, 'r>,
    ) -> Result<Vec<Tuple>, SqlError> {
        let mut joined = Vec::new();
        let mut take = |a: &Tuple, b: &Tuple| {
            let both = both(a, b);
            self.step()?;
            if self.hold(conditions.iter().copied(), &at.frame(self, &both))? {
                joined.push(self.joined(both)?);
            }
            Ok::<_, SqlError>(())
        };
        if equal.is_empty() {
            for a in &left.tuples {
                for b in &right.tuples {
                    take(a, b)?;
                }
            }
            return Ok(joined);
        }
        // The smaller side is hashed.
        let (lefts, rights): (Vec<&Expr>, Vec<&Expr>) = equal.iter().copied().unzip();
        let (small, small_keys, large, large_keys) = if left.tuples.len() <= right.tuples.len() {
            (&left.tuples, &lefts, &right.tuples, &rights)
        } else {
            (&right.tuples, &rights, &left.tuples, &lefts)
        };
        let places = self.hashed(small, small_keys, at)?;
        for tuple in large {
            let Some(key) = self.key(large_keys, tuple, at)? else { continue };
            for place in places.get(&key).into_iter().flatten() {
                take(tuple, &small[*place as usize])?;
            }
        }
        Ok(joined)
    }

    fn key(&self, exprs: &[&Expr], tuple: &Tuple, at: &At<'_, 'r>) -> Result<Option<Vec<u8>>, SqlError> {
        self.step()?;
        let frame = at.frame(self, tuple);
        let values = exprs.iter().map(|expr| self.eval(expr, &frame)).collect::<Result<Vec<_>, _>>()?;
        Ok(key_of(&values))
    }

    fn hashed(
        &self,
        tuples: &[Tuple],
        exprs: &[&Expr],
        at: &At<'_, 'r>,
    ) -> Result<HashMap<Vec<u8>, Vec<u32>>, SqlError> {
        let mut places: HashMap<Vec<u8>, Vec<u32>> = HashMap::with_capacity(tuples.len());
        for (tuple, place) in tuples.iter().zip(0_u32..) {
            if let Some(key) = self.key(exprs, tuple, at)? {
                self.takes(key.len() + 48)?;
                places.entry(key).or_default().push(place);
            }
        }
        Ok(places)
    }

    fn outer_join(&self, join: &'r OuterJoin, at: &At<'_, 'r>, base: &Tuple) -> Result<Vec<Tuple>, SqlError> {
        let left = self.node(&join.left, at, base)?;
        let right = self.node(&join.right, at, base)?;
        let (lefts, rights): (Vec<&Expr>, Vec<&Expr>) = join.equal.iter().map(|(a, b)| (a, b)).unzip();
        let places = if join.equal.is_empty() { HashMap::new() } else { self.hashed(&right, &rights, at)? };
        let all: Vec<u32> =
            if join.equal.is_empty() { (0..right.len() as u32).collect() } else { Vec::new() };
        let mut has_partner = vec![false; right.len()];
        let mut joined = Vec::new();
        for a in &left {
            let partners = if join.equal.is_empty() {
                Some(&all)
            } else {
                self.key(&lefts, a, at)?.and_then(|key| places.get(&key))
            };
            let mut is_alone = true;
            for place in partners.into_iter().flatten() {
                self.step()?;
                let tuple = both(a, &right[*place as usize]);
                if self.hold(&join.conditions, &at.frame(self, &tuple))? {
                    is_alone = false;
                    has_partner[*place as usize] = true;
                    joined.push(self.joined(tuple)?);
                }
            }
            if is_alone && join.keeps_left {
                joined.push(self.joined(a.clone())?);
            }
        }
        if join.keeps_right {
            for (b, _) in right.iter().zip(&has_partner).filter(|(_, has)| !**has) {
                joined.push(self.joined(b.clone())?);
            }
        }
        Ok(joined)
    }

    /// The right side is found anew for each row of the left one.
    fn outer_lateral(
        &self,
        join: &'r OuterJoin,
        at: &At<'_, 'r>,
        base: &Tuple,
    ) -> Result<Vec<Tuple>, SqlError> {
        let mut joined = Vec::new();
        for a in self.node(&join.left, at, base)? {
            let mut is_alone = true;
            for tuple in self.node(&join.right, at, &a)? {
                self.step()?;
                let frame = at.frame(self, &tuple);
                let mut holds = self.hold(&join.conditions, &frame)?;
                for (left, right) in &join.equal {
                    let both = [self.eval(left, &frame)?, self.eval(right, &frame)?];
                    holds = holds && key_of(&both[..1]).is_some() && key_of(&both[..1]) == key_of(&both[1..]);
                }
                if holds {
                    is_alone = false;
                    joined.push(tuple);
                }
            }
            if is_alone {
                joined.push(self.joined(a)?);
            }
        }
        Ok(joined)
    }
}

fn both(a: &Tuple, b: &Tuple) -> Tuple {
    a.iter().zip(b.iter()).map(|(a, b)| a.clone().or_else(|| b.clone())).collect()
}

/// The conditions that can be checked now and were not before.
fn ready<'r>(conditions: &'r [Condition], known: u64, done: &mut [bool]) -> Vec<&'r Expr> {
    let mut ready = Vec::new();
    for (condition, done) in conditions.iter().zip(done) {
        if !*done && condition.relations & !known == 0 {
            *done = true;
            ready.push(&condition.expr);
        }
    }
    ready
}

/// The sides of an equality over each part.
fn sides(condition: &Condition, left: u64, right: u64) -> Option<(&Expr, &Expr)> {
    let [(a, of_a), (b, of_b)] = condition.equal.as_deref()?;
    if of_a & !left == 0 && of_b & !right == 0 {
        Some((a, b))
    } else if of_b & !left == 0 && of_a & !right == 0 {
        Some((b, a))
    } else {
        None
    }
}

/// The relations of a node, a bit each.
fn relations(node: &Node) -> u64 {
    match node {
        Node::Leaf(leaf) => 1 << leaf.relation,
        Node::Filter { input, .. } => relations(input),
        Node::Inner { parts, .. } => parts.iter().fold(0, |bits, part| bits | relations(part)),
        Node::Outer(join) => relations(&join.left) | relations(&join.right),
    }
}
