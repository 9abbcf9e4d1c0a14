//! Tables without boxes: as wide as their content, numbers to the right, and nothing wraps. Where
//! the screen is too narrow, the last column is cut; where that is not enough, the columns that
//! matter least are dropped one by one.

use super::paint::{Ink, Paint};
use super::text::{cut, tame, width};

/// Columns between two columns.
const GAP: usize = 2;

/// The last column is not cut shorter than this; a column goes instead.
const LAST_MIN: usize = 12;

/// Words in other columns are cut to this before anything is dropped.
const WORD_MAX: usize = 24;

/// A line in pieces, each in its ink.
pub(crate) type Pieces = Vec<(String, Ink)>;

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Its heading.
    pub(crate) head: &'static str,
    /// Whether its cells stand to the right.
    pub(crate) right: bool,
    /// Columns of a lower rank are dropped first; [`u8::MAX`] never is.
    pub(crate) rank: u8,
}

impl Column {
    /// A column of words that always stays.
    pub(crate) const fn left(head: &'static str) -> Self {
        Self { head, right: false, rank: u8::MAX }
    }

    /// A column of numbers that always stays.
    pub(crate) const fn right(head: &'static str) -> Self {
        Self { head, right: true, rank: u8::MAX }
    }

    /// The same, dropped before those of a higher rank.
    pub(crate) const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    ink: Ink,
}

impl Cell {
    /// A cell in that ink. Whatever the text is, it takes one line and no control of the screen.
    pub(crate) fn new(text: &str, ink: Ink) -> Self {
        Self { text: tame(text), ink }
    }

    /// What it says.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text.as_ref(), Ink::Plain)
    }
}

/// A table that is being filled.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    indent: usize,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new(), indent: 2 }
    }

    /// Adds a row, a cell a column.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The table as text, every line ended; `screen` is the width that must not be exceeded.
    pub(crate) fn render(self, screen: Option<usize>, paint: Paint) -> String {
        let mut text = String::new();
        for line in self.lines(screen) {
            let painted: String = line.iter().map(|(text, ink)| paint.with(*ink, text)).collect();
            text.push_str(painted.trim_end());
            text.push('\n');
        }
        text
    }

    /// The same as lines of pieces, the headings first where there are any.
    pub(crate) fn lines(mut self, screen: Option<usize>) -> Vec<Pieces> {
        let mut widths = self.widths();
        if let Some(screen) = screen {
            self.fit(&mut widths, screen);
        }
        let mut lines = Vec::new();
        if self.columns.iter().any(|column| !column.head.is_empty()) {
            let heads = self.columns.iter().map(|column| Cell::new(column.head, Ink::Bold));
            lines.push(self.line(&heads.collect::<Vec<_>>(), &widths));
        }
        lines.extend(self.rows.iter().map(|row| self.line(row, &widths)));
        lines
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(|cell| width(&cell.text)).max().unwrap_or(0).max(width(column.head))
        };
        self.columns.iter().enumerate().map(widest).collect()
    }

    /// Makes the table fit: long words are cut first, then the last column, then columns are
    /// dropped, the least important ones first, and at last the widest are cut to what there is.
    fn fit(&mut self, widths: &mut Vec<usize>, screen: usize) {
        if self.taken(widths) + widths.last().copied().unwrap_or(0) <= screen {
            return;
        }
        let others = widths.len().saturating_sub(1);
        let words = self.columns.iter().zip(widths.iter_mut()).take(others);
        for (_, width) in words.filter(|(column, _)| !column.right) {
            *width = (*width).min(WORD_MAX);
        }
        while let Some(last) = widths.last().copied() {
            let room = screen.saturating_sub(self.taken(widths));
            if LAST_MIN.min(last) <= room || !self.give_way(widths) {
                if let Some(last) = widths.last_mut() {
                    *last = room.min(*last);
                }
                return;
            }
        }
    }

    /// Columns before the last column.
    fn taken(&self, widths: &[usize]) -> usize {
        let others = widths.len().saturating_sub(1);
        self.indent + widths.iter().take(others).map(|width| width + GAP).sum::<usize>()
    }

    /// Drops the column that matters least, or takes a little from the widest; false when nothing
    /// is left to give.
    fn give_way(&mut self, widths: &mut Vec<usize>) -> bool {
        let others = widths.len().saturating_sub(1);
        let ranked = self.columns.iter().take(others).enumerate();
        let droppable = ranked.filter(|(_, column)| column.rank != u8::MAX);
        if let Some((index, _)) = droppable.min_by_key(|(_, column)| column.rank) {
            self.columns.remove(index);
            widths.remove(index);
            for row in &mut self.rows {
                row.remove(index);
            }
            return true;
        }
        match widths.iter_mut().take(others).max_by_key(|width| **width) {
            Some(widest) if 1 < *widest => {
                *widest -= 1;
                true
            }
            _ => false,
        }
    }

    fn line(&self, cells: &[Cell], widths: &[usize]) -> Pieces {
        let mut line = vec![(" ".repeat(self.indent), Ink::Plain)];
        for ((cell, column), columns) in cells.iter().zip(&self.columns).zip(widths) {
            let content = cut(&cell.text, *columns);
            let padding = columns.saturating_sub(width(&content));
            let (before, after) = if column.right { (padding, 0) } else { (0, padding) };
            line.push((" ".repeat(before), Ink::Plain));
            line.push((content, cell.ink));
            line.push((" ".repeat(after + GAP), Ink::Plain));
        }
        line.retain(|(text, _)| !text.is_empty());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::samples::screen;
    use expect_test::expect;

    fn sample() -> Table {
        let columns = [
            Column::right("ID"),
            Column::left("STATUS"),
            Column::right("PRI").rank(1),
            Column::left("WHEN").rank(2),
            Column::left("NOTE"),
        ];
        let mut table = Table::new(&columns);
        let rows = [
            ["7", "RUNNING", "100", "", "6,000 of 10,000"],
            ["88231", "DEAD", "5", "9 min ago", "connection refused by 10.0.0.1"],
            ["9", "PENDING", "", "now", ""],
        ];
        for row in rows {
            table.row(row.map(Cell::from).to_vec());
        }
        table
    }

    #[test]
    fn numbers_stand_to_the_right_and_no_line_ends_in_spaces() {
        let text = sample().render(None, Paint(false));
        assert!(text.lines().all(|line| line.trim_end() == line));
        expect![[r#"
            screen
                 ID  STATUS   PRI  WHEN       NOTE
                  7  RUNNING  100             6,000 of 10,000
              88231  DEAD       5  9 min ago  connection refused by 10.0.0.1
                  9  PENDING       now
        "#]]
        .assert_eq(&screen(&text));
    }

    #[test]
    fn a_narrow_screen_cuts_the_last_column_then_drops_the_least() {
        let mut all = String::new();
        for screen in [60, 50, 40, 30, 10] {
            let text = sample().render(Some(screen), Paint(false));
            let widest = text.lines().map(width).max().unwrap();
            all += &format!("{screen} columns, {widest} used\n{text}");
        }
        expect![[r#"
            60 columns, 60 used
                 ID  STATUS   PRI  WHEN       NOTE
                  7  RUNNING  100             6,000 of 10,000
              88231  DEAD       5  9 min ago  connection refused by 10.…
                  9  PENDING       now
            50 columns, 50 used
                 ID  STATUS   PRI  WHEN       NOTE
                  7  RUNNING  100             6,000 of 10,000
              88231  DEAD       5  9 min ago  connection refu…
                  9  PENDING       now
            40 columns, 40 used
                 ID  STATUS   NOTE
                  7  RUNNING  6,000 of 10,000
              88231  DEAD     connection refused by…
                  9  PENDING
            30 columns, 30 used
                 ID  STATUS   NOTE
                  7  RUNNING  6,000 of 10…
              88231  DEAD     connection …
                  9  PENDING
            10 columns, 10 used
              …  …  N…
              7  …  6…
              …  …  c…
              9  …
        "#]]
        .assert_eq(&all);
    }

    #[test]
    fn ink_takes_no_room() {
        let mut table = Table::new(&[Column::left("A"), Column::left("B")]);
        table.row(vec![Cell::new("x", Ink::Red), "y".into()]);
        expect![[r#"
            screen
              ^[1mA^[0m  ^[1mB^[0m
              ^[31mx^[0m  y
        "#]]
        .assert_eq(&screen(&table.render(Some(80), Paint(true)).replace('\u{1b}', "^")));
    }
}
