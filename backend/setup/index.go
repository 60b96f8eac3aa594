package setup

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	xlainstaller "github.com/gomlx/go-xla/installer"
)

// wheelURL returns the URL of a wheel: in the index that pip is configured with (PIP_INDEX_URL or pip.conf), else in
// the one that go-xla's installer knows.
func (in *installer) wheelURL(ctx context.Context, a wheel) (string, error) {
	if index := pipSetting("index-url"); index != "" {
		return in.simpleIndexURL(ctx, index, a)
	}
	info, err := pipInfo(ctx, a.Package)
	if err != nil {
		return "", err
	}
	exact := regexp.MustCompile("^" + regexp.QuoteMeta(a.File) + "$")
	release, err := xlainstaller.PipSelectRelease(info.Releases[a.Version], exact, true)
	if err != nil {
		return "", fmt.Errorf("the package index has no %s in %s %s", a.File, a.Package, a.Version)
	}
	return absoluteURL(release.URL, info.Info.ProjectURL, a.Package)
}

// pipInfo queries the package index that go-xla's installer knows. pkg may name a version: "libtpu/0.0.51".
func pipInfo(ctx context.Context, pkg string) (*xlainstaller.PipPackageInfo, error) {
	type answer struct {
		info *xlainstaller.PipPackageInfo
		err  error
	}
	answers := make(chan answer, 1) // the library's call does not take a context
	go func() {
		info, err := xlainstaller.GetPipInfo(pkg)
		answers <- answer{info, err}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case reply := <-answers:
		if reply.err != nil {
			return nil, fmt.Errorf("reading %s from the package index: %w", pkg, reply.err)
		}
		if reply.info.Info.Name == "" {
			return nil, fmt.Errorf("the package index has no %s", pkg)
		}
		return reply.info, nil
	}
}

// absoluteURL resolves a link of the index's JSON page. Mirrors write links relative to that page, whose host the
// library does not return; the project's address has the same host.
func absoluteURL(link, project, pkg string) (string, error) {
	u, err := url.Parse(link)
	if err != nil {
		return "", fmt.Errorf("the package index has an invalid link for %s: %w", pkg, err)
	}
	if u.IsAbs() {
		return link, nil
	}
	base, err := url.Parse(project)
	if err != nil || !base.IsAbs() {
		return "", fmt.Errorf("the package index has the relative link %q for %s, and its address is not known: set "+
			"PIP_INDEX_URL", link, pkg)
	}
	base.Path = "/pypi/" + pkg + "/json"
	return base.ResolveReference(u).String(), nil
}

// anchor matches the links of a simple index page (PEP 503).
var anchor = regexp.MustCompile(`(?i)<a\s[^>]*href\s*=\s*["']([^"']+)["']`)

// simpleIndexURL looks the wheel up in a "simple" package index, in its JSON form (PEP 691) or its HTML form (PEP 503).
func (in *installer) simpleIndexURL(ctx context.Context, index string, a wheel) (string, error) {
	page := strings.TrimSuffix(index, "/") + "/" + a.Package + "/"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return "", fmt.Errorf("pip's index-url: %w", err)
	}
	req.Header.Set("Accept", "application/vnd.pypi.simple.v1+json, text/html;q=0.5")
	resp, err := in.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("reading %s from pip's index-url: %w", a.Package, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("reading %s from pip's index-url: %s", a.Package, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return "", fmt.Errorf("reading %s from pip's index-url: %w", a.Package, err)
	}
	base := resp.Request.URL
	var links []string
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		var list struct {
			Files []struct{ URL string }
		}
		if err := json.Unmarshal(body, &list); err != nil {
			return "", fmt.Errorf("the answer of pip's index-url for %s: %w", a.Package, err)
		}
		for _, f := range list.Files {
			links = append(links, f.URL)
		}
	} else {
		for _, m := range anchor.FindAllSubmatch(body, -1) {
			links = append(links, string(m[1]))
		}
	}
	for _, link := range links {
		u, err := base.Parse(strings.ReplaceAll(link, "&amp;", "&"))
		if err != nil {
			continue
		}
		if name, err := url.PathUnescape(filepath.Base(u.Path)); err == nil && name == a.File {
			u.Fragment = ""
			return u.String(), nil
		}
	}
	return "", fmt.Errorf("pip's index-url has no %s in %s", a.File, a.Package)
}

// localWheel returns the wheel's path if one of pip's find-links folders holds it, else "".
func localWheel(a wheel) string {
	for _, dir := range strings.Fields(pipSetting("find-links")) {
		path := filepath.Join(strings.TrimPrefix(dir, "file://"), a.File)
		if regularFile(path) == nil {
			return path
		}
	}
	return ""
}

// pipSetting returns a setting of pip: PIP_<NAME>, else from its configuration files, the user's before the
// machine's.
func pipSetting(name string) string {
	if v := os.Getenv("PIP_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))); v != "" {
		return v
	}
	var files []string
	if f := os.Getenv("PIP_CONFIG_FILE"); f != "" {
		files = append(files, f)
	}
	if prefix := os.Getenv("VIRTUAL_ENV"); prefix != "" {
		files = append(files, filepath.Join(prefix, "pip.conf"))
	}
	if dir, err := os.UserConfigDir(); err == nil {
		files = append(files, filepath.Join(dir, "pip", "pip.conf"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".pip", "pip.conf"))
	}
	for _, f := range append(files, "/etc/pip.conf") {
		if v := iniSetting(f, name); v != "" {
			return v
		}
	}
	return ""
}

// iniSetting returns the value of one key in the sections [global], [install] and [download] of a pip.conf; "" if it
// is not set.
func iniSetting(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	section, value := "", ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[] ")
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		if ok && strings.TrimSpace(k) == key && (section == "global" || section == "install" || section == "download") {
			value = strings.TrimSpace(v)
		}
	}
	return value
}
