// Built by make scripts: change the modules.
function p(e){let i=window,t=i.heedmapScripts??=new Map;return t.has(e)||t.set(e,{draw:null,waiting:[]}),t.get(e)}function r(e,i){let{draw:t,waiting:n}=p(e);t?i(t):n.push(i)}function c(e){let i=!1,t=()=>{};return r(e.name,n=>{i||(t=n(e))}),()=>{i=!0,t()}}export{c as default};
