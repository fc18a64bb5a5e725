//! The lines of `EXPLAIN`.

use compiler::tree::{Asked, Body, Leaf, Node, Query, Select, SetOp, Source, Tree};

pub fn lines(tree: &Tree) -> Vec<String> {
    let mut lines = Lines { tree, lines: Vec::new(), depth: 0 };
    lines.query(&tree.query);
    for with in &tree.withs {
        lines.add(format!("WITH {}", with.name));
        lines.inside(|lines| {
            match with.given {
                Some(part) => lines.add(format!("what part {} gives", part + 1)),
                None => lines.query(&with.query),
            }
            if let Some((step, _)) = &with.step {
                lines.add("again and again, while rows are added");
                lines.inside(|lines| lines.query(step));
            }
        });
    }
    for (sub, number) in tree.subs.iter().zip(1..) {
        let what = match sub.what {
            Asked::Value => "a value",
            Asked::Array(_) => "an array",
            Asked::Existence => "whether it has a row",
            Asked::Comparison { .. } => "values to compare with",
        };
        let when = if sub.free.is_empty() { "once" } else { "once for each set of values that it needs" };
        lines.add(format!("Sub-query {number}: {what}, {when}"));
        lines.inside(|lines| lines.query(&sub.query));
    }
    for scan in &tree.scans {
        lines.add(format!("Rows of {}:", scan.table));
        let program = compiler::describe::program(&scan.program);
        lines.inside(|lines| program.iter().for_each(|line| lines.add(line)));
    }
    lines.lines
}

struct Lines<'t> {
    tree: &'t Tree,
    lines: Vec<String>,
    depth: usize,
}

impl Lines<'_> {
    fn add(&mut self, line: impl AsRef<str>) {
        self.lines.push(format!("{}{}", "  ".repeat(self.depth), line.as_ref()));
    }

    fn inside(&mut self, add: impl FnOnce(&mut Self)) {
        self.depth += 1;
        add(self);
        self.depth -= 1;
    }

    fn query(&mut self, query: &Query) {
        if query.limit.is_some() || query.offset.is_some() {
            self.add("Limit");
        }
        if !query.order.is_empty() {
            let keys = query.order.len();
            self.add(format!("Sort by {keys} column{}", if keys == 1 { "" } else { "s" }));
        }
        match &query.body {
            Body::Select(select) => self.select(select),
            Body::Values(rows) => self.add(format!("{} rows of values", rows.len())),
            Body::Mapped(query, _) | Body::First(query, _) => self.query(query),
            Body::Set(set) => {
                let word = match set.op {
                    SetOp::Union => "Union",
                    SetOp::Intersect => "Intersect",
                    SetOp::Except => "Except",
                };
                self.add(format!("{word}{}", if set.all { " all" } else { "" }));
                self.inside(|lines| {
                    lines.query(&set.left);
                    lines.query(&set.right);
                });
            }
        }
    }

    fn select(&mut self, select: &Select) {
        self.add(format!("Select {} columns", select.items.len()));
        self.inside(|lines| {
            if !select.windows.is_empty() {
                lines.add(format!("{} window functions", select.windows.len()));
            }
            if let Some(grouping) = &select.grouping {
                let (keys, aggregates) = (grouping.keys.len(), grouping.aggregates.len());
                let sets = match grouping.sets.len() {
                    0 | 1 => String::new(),
                    sets => format!(" in {sets} sets"),
                };
                lines.add(format!("Group by {keys} keys{sets}, {aggregates} aggregates"));
            }
            match &select.from {
                Some(node) => lines.node(node),
                None => lines.add("One row"),
            }
        });
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Leaf(leaf) => self.leaf(leaf),
            Node::Filter { input, conditions } => {
                self.add(format!("Filter by {} conditions", conditions.len()));
                self.inside(|lines| lines.node(input));
            }
            Node::Inner { parts, conditions, in_order } => {
                if parts.len() == 1 {
                    return self.node(&parts[0]);
                }
                let equal = conditions.iter().filter(|condition| condition.equal.is_some()).count();
                let order = if *in_order { "in this order" } else { "the fewest rows first" };
                self.add(format!(
                    "Inner join of {} parts, {order}: {equal} equalities by hashing, {} other conditions",
                    parts.len(),
                    conditions.len() - equal
                ));
                self.inside(|lines| parts.iter().for_each(|part| lines.node(part)));
            }
            Node::Outer(join) => {
                let word = match (join.keeps_left, join.keeps_right) {
                    (true, true) => "Full",
                    (true, false) => "Left",
                    _ => "Right",
                };
                self.add(format!(
                    "{word} join: {} equalities by hashing, {} other conditions",
                    join.equal.len(),
                    join.conditions.len()
                ));
                self.inside(|lines| {
                    lines.node(&join.left);
                    lines.node(&join.right);
                });
            }
        }
    }

    fn leaf(&mut self, leaf: &Leaf) {
        let more = match (leaf.lookup.len(), leaf.conditions.len()) {
            (0, 0) => String::new(),
            (0, conditions) => format!(", {conditions} conditions"),
            (lookup, conditions) => format!(", found by {lookup} values, {conditions} conditions"),
        };
        match &leaf.source {
            Source::Scan(scan) => {
                let table = self.tree.scans.get(*scan).map_or("", |scan| scan.table.as_str());
                self.add(format!("Scan of {table}{more}"));
            }
            Source::With(with) | Source::Working(with) => {
                let name = self.tree.withs.get(*with).map_or("", |with| with.name.as_str());
                self.add(format!("Rows of {name}{more}"));
            }
            Source::Series { .. } => self.add(format!("Series{more}")),
            Source::Elements(arrays) => self.add(format!("Elements of {} arrays{more}", arrays.len())),
            Source::Numbered(source) => {
                self.add("With numbers");
                let leaf = Leaf { source: source.as_ref().clone(), ..leaf.clone() };
                self.inside(|lines| lines.leaf(&leaf));
            }
            Source::Query { query, is_lateral } => {
                let each = if *is_lateral { " for each row before it" } else { "" };
                self.add(format!("Query{each}{more}"));
                self.inside(|lines| lines.query(query));
            }
        }
    }
}
