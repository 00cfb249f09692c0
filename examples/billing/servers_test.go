package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/examples/billing/internal/nightly"
	"github.com/fenced-go/fenced/internal/testenv"
)

// real are the flags for servers of the test's own.
func real(tb testing.TB) (redis *testenv.Redis, db string, flags []string) {
	tb.Helper()
	db = testenv.Database(tb)
	redis = testenv.NewRedis(tb)
	return redis, db, []string{"-redis", "redis://" + redis.DirectAddr(), "-postgres", db}
}

// name is the database in a URL.
func name(tb testing.TB, db string) string {
	tb.Helper()
	u, err := url.Parse(db)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

func TestDatabaseRefusesAStoppedProcess(t *testing.T) {
	t.Parallel()
	_, db, flags := real(t)
	pg, in := testenv.SharedPostgres(t), name(t, db)
	pg.Do(t, in, "CREATE TABLE mine (n int); INSERT INTO mine VALUES (1)")
	for range 2 { // the second run finds what the first one left
		out, stderr := run(t, 0, flags...)
		checkSafe(t, out, "12")
		if stderr != "" {
			t.Errorf("it writes to stderr: %s", stderr)
		}
	}
	if got := pg.Do(t, in, "SELECT n FROM mine"); len(got) != 1 {
		t.Errorf("the other table has %v", got)
	}
}

func TestUnsafeStoryBillsTwiceOnRealServers(t *testing.T) {
	t.Parallel()
	_, _, flags := real(t)
	out, _ := run(t, exitWrongBooks, append(flags, "-unsafe")...)
	checkUnsafe(t, out)
	out, _ = run(t, 0, append(flags, "-workers", "4", "-accounts", "60")...) // the constraint is back
	checkSafe(t, out, "60")
}

func TestInterruptReleasesOnRealServers(t *testing.T) {
	t.Parallel()
	redis, _, flags := real(t)
	p := start(t, append(flags, "-ttl", "1m")...)
	testenv.Eventually(t, within, "worker 1 stands still", func() bool { return len(stopped(t, p.Pid())) == 1 })
	if n := redis.Do(t, "EXISTS", lockKey()); n != int64(1) {
		t.Fatalf("the worker that stands still holds no lock: %v", redis.Do(t, "KEYS", "*"))
	}
	interrupt(t, p)
	if n := redis.Do(t, "EXISTS", lockKey()); n != int64(0) {
		t.Errorf("the lock was not released: %v", redis.Do(t, "KEYS", "*"))
	}
}

func TestForeignSchemaIsLeftAlone(t *testing.T) {
	t.Parallel()
	_, db, flags := real(t)
	pg, in := testenv.SharedPostgres(t), name(t, db)
	pg.Do(t, in, "CREATE SCHEMA billing_example; CREATE TABLE billing_example.accounts (n int)")
	_, stderr := run(t, exitUsage, flags...)
	oneLine(t, stderr, "not the example's")
	pg.Do(t, in, "SELECT n FROM billing_example.accounts")
}

func TestTwoRunsDoNotMix(t *testing.T) {
	t.Parallel()
	_, _, flags := real(t)
	first := start(t, append(flags, "-ttl", "1m")...)
	testenv.Eventually(t, within, "worker 1 stands still", func() bool { return len(stopped(t, first.Pid())) == 1 })
	_, stderr := run(t, exitUsage, flags...)
	oneLine(t, stderr, "another run")
}

func TestUnreachablePostgresIsOneLine(t *testing.T) {
	t.Parallel()
	redis := testenv.NewRedis(t)
	for _, c := range []struct{ url, says string }{
		{"postgres://u:sesame@127.0.0.1:1/billing", "Postgres at 127.0.0.1:1"},
		{"postgres://u:sesame@127.0.0.1:port/billing", "-postgres: "},
		{"mysql://u:sesame@127.0.0.1:1/billing", "-postgres: "},
	} {
		_, stderr := run(t, exitUsage, "-redis", "redis://"+redis.DirectAddr(), "-postgres", c.url)
		oneLine(t, stderr, c.says)
	}
}

func TestStoppedWorkerEndsWithAKilledParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties processes together")
	}
	_, _, flags := real(t)
	p := start(t, append(flags, "-ttl", "1m")...)
	var workers []string
	testenv.Eventually(t, within, "worker 1 stands still", func() bool {
		workers = stopped(t, p.Pid())
		return len(workers) == 1
	})
	parent, err := os.FindProcess(p.Pid())
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Kill(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, within, "the worker is gone", func() bool { return !isStopped(workers[0]) })
}

// bucket is the URL of an S3 server of the test's own.
func bucket(tb testing.TB) string {
	tb.Helper()
	s := testenv.NewS3(tb)
	return fmt.Sprintf("http://%s:%s@%s/%s", s.AccessKey, s.SecretKey, strings.TrimPrefix(s.DirectURL(), "http://"), s.Bucket)
}

// The worker that wakes up writes the statement of its account and then the
// invoice, and is refused twice.
func TestBucketRefusesAStoppedProcess(t *testing.T) {
	t.Parallel()
	_, _, flags := real(t)
	addr := bucket(t)
	for range 2 { // the second run finds what the first one left
		out, stderr := run(t, 0, append(flags, "-s3", addr)...)
		out, where := without(out, "Statements are files in bucket")
		out, audit := without(out, "statements: 12 agree with the invoices, 0 do not, 1 stale ones refused")
		checkSafe(t, out, "12")
		refused := refusedTwice.FindStringSubmatch(out)
		if !where || !audit || stderr != "" || refused == nil || refused[1] != refused[3] || refused[2] != refused[4] {
			t.Errorf("got %s%s", out, stderr)
		}
	}
	statements, err := openFiles(t.Context(), addr, false)
	if err != nil {
		t.Fatal(err)
	}
	fenced, ok := statements.(fencedFiles)
	if !ok {
		t.Fatalf("got %T", statements)
	}
	list, err := fenced.store.List(t.Context(), nightly.Resource(night), "statements/")
	if err != nil || len(list) != 12 || list[3].FenceID >= list[4].FenceID || list[4].FenceID != list[11].FenceID {
		t.Errorf("got %+v, %v, want the second worker's fence from the fifth statement on", list, err)
	}
}

// refusedTwice is the story's own step: one account, one newer fence.
var refusedTwice = regexp.MustCompile(`worker 1 +wakes up, and writes the invoice +-\n` +
	`.*worker 1 +statement (\d+) refused by the bucket: (\d+) was claimed +\d+\n` +
	`.*worker 1 +account (\d+) refused by the store: (\d+) was claimed +\d+\n`)

// Without a fence customers pay twice, and their statements say once.
func TestUnsafeStoryLeavesWrongStatements(t *testing.T) {
	t.Parallel()
	_, _, flags := real(t)
	out, _ := run(t, exitWrongBooks, append(flags, "-s3", bucket(t), "-unsafe")...)
	out, where := without(out, "Statements are files in bucket")
	out, audit := without(out, "statements: 4 agree with the invoices, 8 do not, 0 stale ones refused")
	checkUnsafe(t, out)
	if !where || !audit {
		t.Errorf("got %s", out)
	}
}

// without removes the line that begins with prefix, and says whether there was one.
func without(text, prefix string) (rest string, found bool) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			return strings.Replace(text, line, "", 1), true
		}
	}
	return text, false
}

func TestBucketThatCannotBeUsedIsOneLine(t *testing.T) {
	t.Parallel()
	_, _, flags := real(t)
	for _, c := range []struct{ url, says string }{
		{"http://k:sesame@127.0.0.1:1/bucket", "S3 at 127.0.0.1:1"},
		{"http://k:sesame@127.0.0.1:1", "-s3: want"},
		{"http://k:sesame@127.0.0.1:port/bucket", "-s3: "},
	} {
		_, stderr := run(t, exitUsage, append(flags, "-s3", c.url)...)
		oneLine(t, stderr, c.says)
	}
	_, stderr := run(t, exitUsage, "-s3", "http://k:sesame@127.0.0.1:1/bucket")
	oneLine(t, stderr, "-redis and -postgres are missing")
}

// lockKey is the lock's key in Redis.
func lockKey() string { return fmt.Sprintf("%s{examples/billing/1999-12-31}:lock", prefix) }

// stopped lists the children of a process that were stopped by a signal.
func stopped(tb testing.TB, pid int) (stopped []string) {
	tb.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		tb.Skip("needs /proc")
	}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		tb.Fatal(err)
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // the thread may have ended
		for child := range strings.FieldsSeq(string(children)) {
			if isStopped(child) {
				stopped = append(stopped, child)
			}
		}
	}
	return stopped
}

func isStopped(pid string) bool {
	stat, _ := os.ReadFile("/proc/" + pid + "/stat") // it may have ended
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "T")
}
