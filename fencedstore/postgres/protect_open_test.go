package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// What docs/guarantees.md lists as still possible, and that what it says closes
// it does.
func TestWhatProtectionLeavesOpen(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	s.try(t, s.admin, []attempt{
		{"owner disables the trigger", "begin; alter table inv disable trigger a_fence; update inv set v = 1", ""},
		{"owner drops the trigger", "begin; drop trigger a_fence on inv; update inv set v = 1", ""},
		{"owner repairs by hand", "begin; select fencedstore.unprotect('inv'); update inv set v = 1; select fencedstore.protect('inv', 'inv'); commit", ""},
		{"owner unprotects", "begin; select fencedstore.unprotect('inv'); update inv set v = 1", ""},
		{"owner rewrites the rows", "begin; alter table inv alter v type bigint using v + 1", ""},
		{"owner drops the table", "begin; drop table inv", ""},
		{"superuser as a replica", "set session_replication_role = replica; begin; update inv set v = 1", ""},
	})
	s.try(t, s.app, []attempt{
		{"row locks", "begin; select * from inv for update; lock table inv in row exclusive mode", ""},
		{"reads", "select * from inv", ""},
		{"statement that meets no row of a tenant", "update tenanted set v = 1 where id = -1", ""},
		{"TRUNCATE of a partition that came later", "truncate part3", ""},
		{"statement that meets no row of a partition that came later", "update part3 set v = 1 where id = -1", ""},
	})
	mustScript(t, s.admin, "create table second_heir () inherits (base); grant insert on second_heir to public")
	s.try(t, s.app, []attempt{{"heir that came later", "begin; insert into second_heir values (1)", ""}})
}

func TestProtectAgainClosesWhatCameLater(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	mustScript(t, s.admin, "create table second_heir () inherits (base); grant insert on second_heir to public")
	for _, table := range []string{"part", "base"} {
		if err := postgres.Protect(t.Context(), s.admin, table, table, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.try(t, s.app, []attempt{
		{"TRUNCATE of the partition", "truncate part3", "ZF004"},
		{"statement that meets no row", "update part22 set v = 1 where id = -1", "ZF004"},
		{"heir", "insert into second_heir values (1)", "ZF004"},
		{"holder", "begin;" + s.enter("part") + "truncate part3", ""},
	})
}

// A role that reaches rows through the partitioned table alone cannot get past
// its trigger.
func TestPartitionWithoutRightsOfItsOwnIsOutOfReach(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	mustScript(t, s.admin, "create table part4 partition of part for values in (4)")
	s.try(t, s.app, []attempt{
		{"TRUNCATE", "truncate part4", "42501"},
		{"INSERT", "insert into part4 values (1, 4)", "42501"},
		{"holder, by the table", "begin;" + s.enter("part") + "insert into part values (1, 4)", ""},
	})
}

func TestAlwaysHoldsForReplicaSessionsToo(t *testing.T) {
	t.Parallel()
	s := openShop(t, &postgres.ProtectOptions{Always: true})
	s.try(t, s.admin, []attempt{
		{"UPDATE", "set session_replication_role = replica; update inv set v = 1", "ZF004"},
		{"TRUNCATE", "set session_replication_role = replica; truncate inv", "ZF004"},
		{"COPY, which a subscriber begins with", "set session_replication_role = replica; copy inv from '/dev/null'", "ZF004"},
		{"partition", "set session_replication_role = replica; update part21 set v = 1", "ZF004"},
		{"rows of tenants", "set session_replication_role = replica; update tenanted set v = 1", "ZF004"},
		{"rows of tenants, TRUNCATE", "set session_replication_role = replica; truncate tenanted", "ZF004"},
		// the row trigger stays as it is: replication applies rows with it
		{"partition that came later", "set session_replication_role = replica; begin; insert into part3 values (1, 3)", ""},
	})
	if err := postgres.Protect(t.Context(), s.admin, "inv", "inv", nil); err != nil {
		t.Fatal(err)
	}
	s.try(t, s.admin, []attempt{{"after Protect without it", "set session_replication_role = replica; begin; update inv set v = 1", ""}})
}

// GRANT ALL contains the right to replace a trigger.
func TestTriggerRightIsEnoughToGetPast(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	const past = "create or replace trigger a_fence before insert on inv for each statement" +
		" execute function pg_temp.nothing(); update inv set v = 1"
	const nothing = "create function pg_temp.nothing() returns trigger language plpgsql as 'begin return new; end'; begin;"
	s.try(t, s.app, []attempt{{"without the right", nothing + past, "42501"}})
	mustScript(t, s.admin, "grant trigger on inv to public")
	s.try(t, s.app, []attempt{{"with the right", nothing + past, ""}})
	cfg := s.admin.Config().ConnConfig.Config
	var warned []string
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { warned = append(warned, n.Hint) }
	conn, err := pgconn.ConnectConfig(t.Context(), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), "select fencedstore.protect('inv', 'inv')").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if len(warned) != 1 || warned[0] != "REVOKE TRIGGER ON public.inv FROM PUBLIC;" {
		t.Errorf("Protect warns %q", warned)
	}
	mustScript(t, s.admin, warned[0])
	s.try(t, s.app, []attempt{{"after its revocation", nothing + past, "42501"}})
}
