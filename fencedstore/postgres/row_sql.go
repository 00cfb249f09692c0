package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// update is a statement that finds the row, locks it, lets the server refuse an
// older fence, and then writes if the condition holds. It answers how many rows
// were found, whether one was deleted, and how many were changed. The row is
// locked before it is written, so that the answers belong together; at read
// committed both steps look at its newest version, whatever they waited for.
func (t *RowTable) update(assignments, condition string) string {
	where := t.where()
	return "with seen as materialized (select fence_deleted from " + t.table + " where " + where +
		" and fencedstore.row_guard(fence_id, fence_holder, $1::int8, sha256($2::bytea)) for no key update), " +
		"done as (update " + t.table + " set " + assignments + "fence_id = $1::int8, fence_holder = sha256($2::bytea) where " + where +
		" and exists (select from seen where " + condition + ") returning 1) " +
		"select (select count(*) from seen), coalesce((select fence_deleted from seen), false), (select count(*) from done)"
}

// upsert answers the same; there is always a row.
func (t *RowTable) upsert(st *rowStatement) string {
	var columns, values, sets []string
	for i, column := range t.key {
		columns = append(columns, quote(column))
		values = append(values, fmt.Sprintf("$%d", 3+i))
	}
	for i, column := range st.columns {
		columns = append(columns, quote(column))
		values = append(values, fmt.Sprintf("$%d", st.first+i))
		sets = append(sets, quote(column)+" = excluded."+quote(column))
	}
	keys := strings.Join(columns[:len(t.key)], ", ")
	sets = append(sets, "fence_id = excluded.fence_id", "fence_holder = excluded.fence_holder", "fence_deleted = false")
	return "with done as (insert into " + t.table + " as r (" + strings.Join(columns, ", ") + ", fence_id, fence_holder) values (" +
		strings.Join(values, ", ") + ", $1::int8, sha256($2::bytea)) on conflict (" + keys + ") do update set " + strings.Join(sets, ", ") +
		" where fencedstore.row_guard(r.fence_id, r.fence_holder, excluded.fence_id, excluded.fence_holder) returning 1) " +
		"select 1::int8, false, (select count(*) from done)"
}

// where finds the row by its key.
func (t *RowTable) where() string {
	terms := make([]string, len(t.key))
	for i, column := range t.key {
		terms[i] = fmt.Sprintf("%s = $%d", quote(column), 3+i)
	}
	return strings.Join(terms, " and ")
}

// assignments set the caller's columns, with a comma after each.
func (st *rowStatement) assignments() string {
	var b strings.Builder
	for i, column := range st.columns {
		fmt.Fprintf(&b, "%s = $%d, ", quote(column), st.first+i)
	}
	return b.String()
}

func quote(column string) string { return pgx.Identifier{column}.Sanitize() }
