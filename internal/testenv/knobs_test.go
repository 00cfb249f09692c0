package testenv_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
)

// readyWithin is for what starts servers in a process of its own.
const readyWithin = 90 * time.Second

// testBinary runs one test of this binary as a process of its own, with the
// knobs of this package set to env and to nothing else.
func testBinary(t *testing.T, test string, env ...string) *testenv.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+test+"$", "-test.v", "-test.count=1")
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "FENCED_TEST_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	return testenv.Start(t, cmd)
}

// outcome runs one test so, and says how it ended, with its output.
func outcome(t *testing.T, test string, env ...string) (how, output string) {
	t.Helper()
	p := testBinary(t, test, env...)
	_ = p.Wait(t, readyWithin)
	output = p.Output()
	for _, how := range []string{"PASS", "SKIP", "FAIL"} {
		if strings.Contains(output, "--- "+how+": "+test) {
			if ok := p.ExitCode() == 0; ok != (how != "FAIL") {
				t.Errorf("%s %s, but exit code %d", test, how, p.ExitCode())
			}
			return how, output
		}
	}
	t.Fatalf("%s has no outcome: %s", test, output)
	return "", ""
}

func TestKnobs(t *testing.T) {
	t.Parallel()
	const redis, postgres = "TestRedisStartsEmptyAndApart", "TestDatabaseIsDroppedWithItsTest"
	const s3 = "TestS3AsksForCredentialsAndComesBackAfterAKill"
	const noRedis, noPostgres = "FENCED_TEST_REDIS_SERVER=/nowhere", "FENCED_TEST_POSTGRES_BIN=/nowhere"
	for _, c := range []struct {
		name, test string
		env        []string
		want       string
		says       []string
	}{
		{"no redis", redis, []string{noRedis}, "SKIP", []string{"/nowhere", "FENCED_TEST_REDIS_SERVER", "FENCED_TEST_REDIS_URL"}},
		{"no postgres", postgres, []string{noPostgres}, "SKIP", []string{"/nowhere", "FENCED_TEST_POSTGRES_BIN", "FENCED_TEST_POSTGRES_URL"}},
		{"no s3", s3, []string{"FENCED_TEST_S3_SERVER=/nowhere"}, "SKIP", []string{"/nowhere", "install.sh", "FENCED_TEST_S3_SERVER", "FENCED_TEST_S3_URL"}},
		{"s3 required", s3, []string{"FENCED_TEST_S3_SERVER=/nowhere", "FENCED_TEST_REQUIRE=s3"}, "FAIL", []string{"FENCED_TEST_REQUIRE"}},
		{"not an S3 URL", s3, []string{"FENCED_TEST_S3_URL=http://hunter2@127.0.0.1:1"}, "FAIL", []string{"accesskey:secretkey"}},
		{"unreachable S3", s3, []string{"FENCED_TEST_S3_URL=http://k:hunter2@127.0.0.1:1/b"}, "FAIL", []string{"refused"}},
		{"no pgbouncer", "TestPgBouncerPassesSessionsOn", []string{"FENCED_TEST_PGBOUNCER=/nowhere"}, "SKIP", []string{"/nowhere", "FENCED_TEST_PGBOUNCER"}},
		{"redis required", redis, []string{noRedis, "FENCED_TEST_REQUIRE=postgres,redis"}, "FAIL", []string{"FENCED_TEST_REQUIRE"}},
		{"all required", postgres, []string{noPostgres, "FENCED_TEST_REQUIRE=all"}, "FAIL", []string{"FENCED_TEST_REQUIRE"}},
		{"another required", redis, []string{noRedis, "FENCED_TEST_REQUIRE=postgres"}, "SKIP", nil},
		{"pinned to url", redis, []string{"FENCED_TEST_MODE=url"}, "SKIP", []string{"FENCED_TEST_REDIS_URL is not set"}},
		{"pinned to docker", redis, []string{"FENCED_TEST_MODE=docker"}, "SKIP", []string{"FENCED_TEST_MODE=docker"}},
		{"pinned to local", redis, []string{"FENCED_TEST_MODE=local", "FENCED_TEST_REDIS_URL=redis://127.0.0.1:1"}, "PASS", nil},
		{"not a mode", redis, []string{"FENCED_TEST_MODE=locale"}, "FAIL", []string{"FENCED_TEST_MODE", "locale"}},
		{"not a URL", redis, []string{"FENCED_TEST_REDIS_URL=:hunter2:"}, "FAIL", []string{"FENCED_TEST_REDIS_URL"}},
		{"unreachable", redis, []string{"FENCED_TEST_REDIS_URL=redis://127.0.0.1:1"}, "FAIL", []string{"refused"}},
		{"unreachable postgres", postgres, []string{"FENCED_TEST_POSTGRES_URL=postgres://u:hunter2@127.0.0.1:1/d"}, "FAIL", []string{"refused"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			how, output := outcome(t, c.test, c.env...)
			if how != c.want {
				t.Errorf("got %s, want %s: %s", how, c.want, output)
			}
			for _, s := range c.says {
				if !strings.Contains(output, s) {
					t.Errorf("the output does not say %q: %s", s, output)
				}
			}
			if strings.Contains(output, "hunter2") {
				t.Errorf("the output shows a password: %s", output)
			}
		})
	}
}

func TestGivenRedis(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	knobs := []string{"FENCED_TEST_MODE=url", "FENCED_TEST_REDIS_URL=redis://" + r.DirectAddr()}
	if how, output := outcome(t, "TestRedisRepliesKeepTheirKind", knobs...); how != "PASS" {
		t.Errorf("plain use: %s: %s", how, output)
	}
	how, output := outcome(t, "TestPausedRedisKeepsConnectionsAndAnswersLater", knobs...)
	if how != "SKIP" || !strings.Contains(output, "to pause it") {
		t.Errorf("pausing what is not ours: %s: %s", how, output)
	}
	how, output = outcome(t, "TestRedisStartsEmptyAndApart", knobs...)
	if how != "SKIP" || !strings.Contains(output, "another test") {
		t.Errorf("two servers of one: %s: %s", how, output)
	}
	if n := r.Do(t, "DBSIZE"); n != int64(0) {
		t.Errorf("tests left %v keys", n)
	}
	r.Do(t, "SET", "precious", "data")
	if how, output := outcome(t, "TestProxyCutRepliesExecutesOnceUnanswered", knobs...); how != "FAIL" || !strings.Contains(output, "empty") {
		t.Errorf("a server with data: %s: %s", how, output)
	}
	if got := r.Do(t, "GET", "precious"); got != "data" {
		t.Errorf("precious is %v, want data", got)
	}
}

func TestGivenPostgresWithAPassword(t *testing.T) {
	t.Parallel()
	p := testenv.NewPostgres(t)
	p.Do(t, "", `CREATE ROLE app LOGIN SUPERUSER PASSWORD 'two words'`)
	file := p.Do(t, "", "SHOW hba_file")[0][0]
	p.Do(t, "", `COPY (VALUES ('host all app all scram-sha-256'), ('host all all all trust')) TO '`+file+`'`)
	p.Do(t, "", "SELECT pg_reload_conf()")
	knob := func(password string) string {
		return "FENCED_TEST_POSTGRES_URL=postgres://app:" + password + "@" + p.DirectAddr() + "/postgres"
	}
	testenv.Eventually(t, soon, "the reload", func() bool { return len(p.Do(t, "", "SELECT 1 FROM pg_hba_file_rules")) == 2 })
	for _, test := range []string{"TestDatabasesAreEmptyAndApart", "TestDatabaseIsDroppedWithItsTest"} {
		if how, output := outcome(t, test, "FENCED_TEST_MODE=url", knob("two%20words")); how != "PASS" {
			t.Errorf("%s: %s: %s", test, how, output)
		}
	}
	how, output := outcome(t, "TestDatabaseIsDroppedWithItsTest", "FENCED_TEST_MODE=url", knob("hunter2"))
	if how != "FAIL" || !strings.Contains(output, "28P01") || strings.Contains(output, "hunter2") {
		t.Errorf("a wrong password: %s: %s", how, output)
	}
	how, output = outcome(t, "TestPausedPostgresAnswersLater", "FENCED_TEST_MODE=url", knob("two%20words"))
	if how != "SKIP" || !strings.Contains(output, "to pause it") {
		t.Errorf("pausing what is not ours: %s: %s", how, output)
	}
}
