package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// GatewayVersion is the version of the S3 server that install.sh builds.
const GatewayVersion = "v1.8.0"

// gatewayBinary is FENCED_TEST_S3_SERVER, versitygw on the PATH, or the one
// that install.sh has built into the user's cache folder.
func gatewayBinary() (string, error) {
	if bin := os.Getenv("FENCED_TEST_S3_SERVER"); bin != "" {
		return lookPath(bin)
	}
	path, err := lookPath("versitygw")
	if err == nil {
		return path, nil
	}
	cache, cacheErr := os.UserCacheDir()
	if cacheErr != nil {
		return "", err
	}
	return lookPath(filepath.Join(cache, "fenced-testenv", "versitygw-"+GatewayVersion, "versitygw"))
}

func lookPath(bin string) (string, error) {
	path, err := exec.LookPath(bin)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return path, nil
}

// s3 starts a gateway on a folder of its own.
func (local) s3() (*S3, error) {
	if _, err := gatewayBinary(); err != nil {
		return nil, err
	}
	return startGateway("")
}

// startGateway runs versitygw on dir, or on a new folder when dir is empty.
func startGateway(dir string) (*S3, error) {
	bin, err := gatewayBinary()
	if err != nil {
		return nil, err
	}
	c, err := newChild("s3")
	if err != nil {
		return nil, err
	}
	s := &S3{Bucket: "tests", AccessKey: "fenced", SecretKey: "fencedsecret", dir: dir}
	if dir == "" {
		s.dir = filepath.Join(c.dir.path, "data")
		if err := os.MkdirAll(filepath.Join(s.dir, s.Bucket), 0o750); err != nil {
			_ = c.discard()
			return nil, err
		}
	}
	env := []string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey}
	c.command = func() *exec.Cmd {
		return command(c.dir.path, env, bin, "--port", c.port.Addr(), "--quiet", "--keep-alive", "posix", s.dir)
	}
	c.quit = os.Kill // nothing of it is worth an orderly end
	s.srv, err = c.startOnce()
	return s, err
}
