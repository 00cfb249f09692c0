package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
)

const programEnv = "FENCED_BILLING_TEST_PROGRAM"

// TestMain makes this binary the program itself where a test starts it as such,
// and where the program starts its workers.
func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" || os.Getenv(workerEnv) != "" {
		main()
	}
	testenv.Main(m)
}

// within bounds every wait: long, because the machine may be busy.
const within = 2 * time.Minute

// program is a run of the example. Its Output is what it wrote to stdout.
type program struct {
	*testenv.Process
	stderr bytes.Buffer // to be read when it has ended
}

func start(tb testing.TB, args ...string) *program {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	p := new(program)
	cmd := exec.CommandContext(tb.Context(), self, args...)
	cmd.Env = append(os.Environ(), programEnv+"=1")
	cmd.Stderr = &p.stderr
	p.Process = testenv.Start(tb, cmd)
	return p
}

// run runs the example to its end and checks the exit code.
func run(tb testing.TB, code int, args ...string) (stdout, stderr string) {
	tb.Helper()
	p := start(tb, args...)
	_ = p.Wait(tb, within)
	if got := p.ExitCode(); got != code {
		tb.Errorf("%v: exit code %d, want %d\n%s%s", args, got, code, p.Output(), &p.stderr)
	}
	return p.Output(), p.stderr.String()
}

// safe is what a reader sees when the fence holds. Lines of other workers may
// come between.
var safe = regexp.MustCompile(`(?s)` +
	`\ds  worker 1 +acquired the lock +(\d+)\n.*` +
	`\ds  worker 1 +read account (\d+), and stalls before it writes +(\d+)\n.*` +
	`\ds  worker (?:[2-9]|\d\d) +acquired the lock +(\d+)\n.*` +
	`\ds  worker (?:[2-9]|\d\d) +finished: billed \d+ accounts, nothing is left +\d+\n.*` +
	`\ds  worker 1 +wakes up, and writes the invoice +-\n.*` +
	`\ds  worker 1 +account (\d+) refused by the store: (\d+) was claimed +(\d+)\n.*` +
	`\nbalances: (\d+) agree with the invoices, 0 do not\n` +
	`audit: (\d+) accounts, (\d+) invoices, 0 duplicates, ([1-9]\d*) stale writes refused\n$`)

// checkSafe checks the story of a run that ended well.
func checkSafe(tb testing.TB, out, accounts string) {
	tb.Helper()
	m := safe.FindStringSubmatch(out)
	if m == nil {
		tb.Fatalf("this is not the story:\n%s", out)
	}
	first, stalledAt, stalledFence, second, refusedAt, refusedFence := m[1], m[2], m[3], m[4], m[5], m[7]
	if stalledAt != refusedAt || first != stalledFence || first != refusedFence {
		tb.Errorf("worker 1 stalls at account %s with fence %s and is refused at %s with %s; it had %s", stalledAt, stalledFence, refusedAt, refusedFence, first)
	}
	if fence(tb, second) <= fence(tb, first) || fence(tb, m[6]) < fence(tb, second) {
		tb.Errorf("fences %s, then %s, refused for %s: want them to rise", first, second, m[6])
	}
	if m[8] != accounts || m[9] != accounts || m[10] != accounts {
		tb.Errorf("%s right balances, %s accounts, %s invoices, want %s each", m[8], m[9], m[10], accounts)
	}
}

func fence(tb testing.TB, s string) int64 {
	tb.Helper()
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

var unsafe = regexp.MustCompile(`(?s)UNSAFE: .*` +
	`worker 1 +read account \d+, and stalls before it writes +-\n.*` +
	`worker 1 +wakes up, and writes the invoice +-\n.*` +
	`worker 1 +finished: .*` +
	`\nbalances: \d+ agree with the invoices, [1-9]\d* do not\n` +
	`audit: (\d+) accounts, (\d+) invoices, (\d+) duplicates, 0 stale writes refused\n$`)

func checkUnsafe(tb testing.TB, out string) {
	tb.Helper()
	m := unsafe.FindStringSubmatch(out)
	if m == nil {
		tb.Fatalf("this is not the story:\n%s", out)
	}
	accounts, invoices, duplicates := fence(tb, m[1]), fence(tb, m[2]), fence(tb, m[3])
	if duplicates == 0 || invoices != accounts+duplicates {
		tb.Errorf("%d accounts, %d invoices, %d duplicates", accounts, invoices, duplicates)
	}
}

func TestStaleWriteIsRefused(t *testing.T) {
	t.Parallel()
	out, _ := run(t, 0)
	checkSafe(t, out, "12")
}

func TestStoryWithManyWorkersAndAccounts(t *testing.T) {
	t.Parallel()
	out, _ := run(t, 0, "-workers", "5", "-accounts", "100", "-ttl", "400ms")
	checkSafe(t, out, "100")
}

func TestUnsafeStoryBillsTwice(t *testing.T) {
	t.Parallel()
	out, _ := run(t, exitWrongBooks, "-unsafe")
	checkUnsafe(t, out)
}

func TestInterruptEndsTheStory(t *testing.T) {
	t.Parallel()
	p := start(t, "-ttl", "1m")
	testenv.Eventually(t, within, "worker 1 stalls", func() bool { return strings.Contains(p.Output(), "stalls") })
	interrupt(t, p)
}

// interrupt presses Ctrl-C and waits for a clean end.
func interrupt(tb testing.TB, p *program) {
	tb.Helper()
	process, err := os.FindProcess(p.Pid())
	if err != nil {
		tb.Fatal(err)
	}
	if err := process.Signal(os.Interrupt); err != nil {
		tb.Fatal(err)
	}
	_ = p.Wait(tb, within)
	if p.ExitCode() != exitInterrupted {
		tb.Errorf("exit code %d, want %d\n%s%s", p.ExitCode(), exitInterrupted, p.Output(), &p.stderr)
	}
	oneLine(tb, p.stderr.String(), "interrupted")
}

func TestHelpExplains(t *testing.T) {
	t.Parallel()
	out, stderr := run(t, 0, "-h")
	for _, want := range []string{"-unsafe", "-redis", "-postgres", "-accounts", "-workers", "-ttl", "-mode", "SIGSTOP", "billing_example", "Exit codes"} {
		if !strings.Contains(out, want) {
			t.Errorf("-h does not mention %s:\n%s", want, out)
		}
	}
	if stderr != "" {
		t.Errorf("-h writes to stderr: %s", stderr)
	}
}

func TestBadFlagsAndServersAreOneLine(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1"
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-wrong"}, "-wrong"},
		{[]string{"-ttl", "soon"}, "-ttl"},
		{[]string{"-ttl", "99ms"}, "from 100ms"},
		{[]string{"-ttl", "-1s"}, "from 100ms"},
		{[]string{"-ttl", "61s"}, "to 1m"},
		{[]string{"-accounts", "1"}, "from 2"},
		{[]string{"-accounts", "10001"}, "to 10000"},
		{[]string{"-accounts", "many"}, "-accounts"},
		{[]string{"-workers", "1"}, "from 2"},
		{[]string{"-workers", "33"}, "to 32"},
		{[]string{"redis://" + nobody}, "no flag"},
		{[]string{"-redis", "redis://" + nobody}, "-postgres is missing"},
		{[]string{"-postgres", "postgres://" + nobody}, "-redis is missing"},
		{[]string{"-mode", "both"}, "lock, once or queue"},
		{[]string{"-mode", "once"}, "-postgres is missing"},
		{[]string{"-mode", "queue", "-redis", "redis://" + nobody, "-postgres", "postgres://" + nobody}, "none of -redis"},
		{[]string{"-mode", "once", "-unsafe", "-postgres", "postgres://" + nobody}, "none of -redis"},
		{[]string{"-mode", "once", "-postgres", "postgres://u:sesame@" + nobody + "/billing"}, "Postgres at " + nobody},
		{[]string{"-redis", "redis://u:sesame@" + nobody, "-postgres", "postgres://" + nobody}, "Redis at " + nobody},
		{[]string{"-redis", "redis://u:sesame@127.0.0.1:port", "-postgres", "postgres://" + nobody}, "-redis: "},
		{[]string{"-redis", "http://u:sesame@" + nobody, "-postgres", "postgres://" + nobody}, "-redis: "},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			out, stderr := run(t, exitUsage, c.args...)
			if out != "" {
				t.Errorf("it begins all the same:\n%s", out)
			}
			oneLine(t, stderr, c.says)
		})
	}
}

func oneLine(tb testing.TB, stderr, says string) {
	tb.Helper()
	if !strings.HasPrefix(stderr, "billing: ") || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, says) {
		tb.Errorf("want one line that says %q: %q", says, stderr)
	}
	if strings.Contains(stderr, "sesame") {
		tb.Errorf("it prints the password: %q", stderr)
	}
}
