package fenced_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/internal/faults"
	"github.com/fenced-go/fenced/internal/testenv"
)

// The fault suite: workers that acquire and write all the time, faults at random
// instants on everything below them, and an oracle. See docs/testing.md.

// withPostgres gives a run a Postgres of its own, and harms it.
func (r *faultRun) withPostgres(p *testenv.Postgres) env {
	r.Helper()
	e := newEnvOn(r.T, nil, p)
	r.tables(e)
	r.setup.Postgres = p.URL(e.db)
	r.harm(processFaults(r.T, "postgres", p)...)
	return e
}

// tables makes the tables of the workers.
func (r *faultRun) tables(e env) {
	r.Helper()
	e.postgres.Do(r, e.db, registerTables)
	for _, name := range r.resources {
		e.postgres.Do(r, e.db, fmt.Sprintf("INSERT INTO register VALUES ('%s', '', 0)", name))
	}
}

// ownWays gives every worker a way of its own to a server, so that one can be cut
// off while the others are not.
func ownWays(r *faultRun, to, addr string) []*testenv.Proxy {
	r.Helper()
	ways := make([]*testenv.Proxy, crewSize)
	for i := range ways {
		p, err := testenv.NewProxy(addr)
		if err != nil {
			r.Fatal(err)
		}
		r.Cleanup(func() { _ = p.Close() })
		r.harm(networkFaults(fmt.Sprintf("w%d's way to %s", i, to), p)...)
		ways[i] = p
	}
	return ways
}

func TestFaultsOnOneRedisAndPostgres(t *testing.T) {
	t.Parallel()
	r := newFaultRun(t)
	clock := testenv.NewClock(t)
	redis, postgres := testenv.NewRedisWithClock(t, clock), testenv.NewPostgres(t)
	e := r.withPostgres(postgres)
	r.harm(processFaults(t, "redis", redis)...)
	r.harm(memoryFaults(t, "redis", redis, clock, r.resources)...)
	toRedis := ownWays(r, "redis", redis.DirectAddr())
	toPostgres := ownWays(r, "postgres", postgres.DirectAddr())
	r.crew(func(i int, s *faultSetup) {
		s.Redis = []string{toRedis[i].Addr()}
		s.Postgres = atAddr(t, s.Postgres, toPostgres[i].Addr())
	})
	r.run()
	r.judge(journal(t, postgres, e.db))
}

func TestFaultsOnSentinelsAndPostgres(t *testing.T) {
	t.Parallel()
	r := newFaultRun(t)
	group, postgres := testenv.NewSentinels(t, 2, 3), testenv.NewPostgres(t)
	e := r.withPostgres(postgres)
	r.harmTogether("redis", append([]*testenv.Redis{group.Master}, group.Replicas...))
	r.harm(networkFaults("way to postgres", postgres.Proxy)...)
	r.setup.Redis, r.setup.Master = testenv.Addrs(group.Sentinels...), testenv.SentinelMaster
	r.crew(nil)
	// This one stays with the first master whatever the others elect: a client on
	// the wrong side of every partition.
	r.start("stray", func(s *faultSetup) {
		s.Redis, s.Master = []string{group.Master.DirectAddr()}, ""
	}).odd = true
	r.run()
	r.judge(journal(t, postgres, e.db))
}

func TestFaultsOnClusterAndPostgres(t *testing.T) {
	t.Parallel()
	r := newFaultRun(t)
	nodes, postgres := testenv.NewRedisCluster(t, 3), testenv.NewPostgres(t)
	e := r.withPostgres(postgres)
	r.harmTogether("redis", nodes)
	r.harm(slotMoves(t, nodes, r.resources[0])...)
	r.harm(networkFaults("way to postgres", postgres.Proxy)...)
	r.setup.Redis, r.setup.Cluster = testenv.Addrs(nodes...), true
	r.crew(nil)
	r.run()
	r.judge(journal(t, postgres, e.db))
}

func TestFaultsOnAFullDisk(t *testing.T) {
	t.Parallel()
	r := newFaultRun(t)
	disk := testenv.NewDisk(t, 64<<20)
	redis, postgres := testenv.NewRedis(t), testenv.NewPostgresOnDisk(t, disk)
	e := r.withPostgres(postgres)
	// eight rows fill a page, so that a table needs room soon
	postgres.Do(t, e.db, "ALTER TABLE journal ADD filler text NOT NULL DEFAULT repeat('x', 900)")
	postgres.Do(t, e.db, "ALTER TABLE register ADD filler text NOT NULL DEFAULT repeat('x', 900)")
	r.harm(faults.Fault{
		Name: "fill the disk", Lane: "postgres", Longest: long,
		Begin: func() { disk.Fill(t) }, End: func() { disk.Free(t) },
	})
	r.harm(processFaults(t, "redis", redis)...)
	r.setup.Redis = []string{redis.Addr()}
	r.crew(nil)
	r.run()
	r.judge(journal(t, postgres, e.db))
}

func TestFaultsOnS3(t *testing.T) {
	t.Parallel()
	r := newFaultRun(t)
	redis, store := testenv.NewRedis(t), testenv.NewS3(t)
	r.harm(processFaults(t, "redis", redis)...)
	r.harm(memoryFaults(t, "redis", redis, nil, r.resources)...)
	r.harm(networkFaults("way to redis", redis.Proxy)...)
	r.harm(processFaults(t, "s3", store)...)
	toS3 := ownWays(r, "s3", strings.TrimPrefix(store.DirectURL(), "http://"))
	direct := s3Setup{store.DirectURL(), store.Bucket, store.AccessKey, store.SecretKey}
	r.setup.Redis, r.setup.S3 = []string{redis.Addr()}, direct
	r.crew(func(i int, s *faultSetup) { s.S3.URL = "http://" + toS3[i].Addr() })
	r.run()
	r.judge(chains(t, direct, r.history.Ops(), r.resources))
}

// Here servers are harmed as containers are: frozen, killed, and taken off their
// network, under a proxy that stays.
func TestContainerFaults(t *testing.T) {
	t.Parallel()
	r := newFaultRun(t)
	redis, postgres := newContainers(t)
	e := r.withPostgres(postgres)
	r.harm(processFaults(t, "redis", redis)...)
	r.harm(containerFaults(t, "redis", redis)...)
	r.harm(containerFaults(t, "postgres", postgres)...)
	r.setup.Redis = []string{redis.Addr()}
	r.crew(nil)
	r.run()
	r.judge(journal(t, postgres, e.db))
}
